"""Python in a prompt: a template that prints a value instead of writing it leaves `None`, `True` or `{'a': 1}` behind."""

import re
from collections.abc import Iterator
from typing import Any

from inference.tokens.rendering.marks import Again
from inference.tokens.rendering.templates import Prepared
from inference.tokens.rendering.warning import RenderWarning

_NONE = re.compile(r"(?<![\w.])None(?!\w|\.\w)")
_PRINTED = re.compile(r"\{'\w+': |\['[^'\n]{0,80}'(?:\]|, ')")
_TRUTH = re.compile(r"(?<![\w.])(?:True|False)(?!\w|\.\w)")
_KINDS = (
    ("none_in_prompt", _NONE, "the word None", "a value was missing or null"),
    ("none_in_prompt", _PRINTED, "a Python list or dictionary", "the chat template prints it instead of writing JSON"),
    ("python_literal", _TRUTH, "Python's True or False", "the chat template does not write them as JSON does"),
)
_MASKED = (("None", "N0ne"), ("True", "Tr0e"), ("False", "F0lse"), ("{'", "{`"), ("['", "[`"))
_HINTS = tuple(was for was, _ in _MASKED)


def find_python(text: str, prepared: Prepared, wording: str, again: Again) -> Iterator[RenderWarning]:
    """Python's words and brackets that neither the conversation nor the template's own wording brought into the render.

    `wording`: the template's own words. People write about Python, so the conversation is rendered again with these words misspelled: what is left is the template's.
    """
    if not any(hint in text for hint in _HINTS):  # nearly every prompt
        return
    found = [kind for kind in _KINDS if kind[1].search(text)]
    if not found:
        return
    masked = again(_masked(prepared.messages), _masked(prepared.tools))
    for code, pattern, what, why in found:
        if masked is not None and pattern.search(masked) and not pattern.search(wording):
            yield RenderWarning(code, f"The prompt holds {what}, which stands in no message: {why}.")


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        for was, becomes in _MASKED:
            value = value.replace(was, becomes)
        return value
    if isinstance(value, dict):
        return {_masked(key): _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value
