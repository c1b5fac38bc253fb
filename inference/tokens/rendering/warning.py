"""What a render says about itself, in one shape for the page, the API and a run's flags."""

from typing import NamedTuple


class RenderWarning(NamedTuple):
    """Something about a render that a person should know: a flag code of the prompt, and a sentence.

    `where` is the index of the message it is about, None where it is about tools, template arguments or the whole prompt.
    """

    code: str
    message: str
    where: int | None = None
