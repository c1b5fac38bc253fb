"""The run form beside its plain fields: which token format fits, which checks there are, what becomes of lost content."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from db.tables import Backend
from inference.context import Context
from inference.quality.flags import FLAG_CODES, FlagCode
from inference.runs.servers import server_facts
from inference.runs.switches import is_switchable
from inference.tokens.errors import TokensError
from inference.tokens.suggestion import suggest
from web.forms import Fields

CHECKS_SHOWN: Final = "checks_shown"
"""The hidden field that says a form had the checks: a box that is not ticked is not sent"""

RENDER_FAULTS: Final = (("generate", "sent all the same, and flagged"),)
"""What may become of a prompt that lost content, besides the default"""
_MOST_SUGGESTED = 3
_WHEN: Final = (
    ("prompt", "Of the prompt"),
    ("ids", "Of the answer's ids, as it arrives"),
    ("text", "Of the answer's text, behind the run"),
    ("run", "Beside the run's other answers, behind it"),
    ("demand", "On demand"),
)


@dataclass(frozen=True, slots=True)
class Suggested:
    """What fits one tokenizer, and why; `href` is its page."""

    tokenizer: str
    name: str
    reason: str
    href: str


@dataclass(frozen=True, slots=True)
class CheckBox:
    """A flag code that can be switched, and whether it is on in this form."""

    flag: FlagCode
    on: bool


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """Those that are looked for at the same time."""

    title: str
    boxes: tuple[CheckBox, ...]


def chosen_checks(form: Fields) -> dict[str, bool]:
    """{flag code: on or off} where the form says otherwise than the defaults; unknown codes stay, to be refused by name."""
    if not form.get(CHECKS_SHOWN):
        return {}
    ticked = set(form.all("checks"))
    known = {code: code in ticked for code in FLAG_CODES if is_switchable(code)}
    changed = {code: on for code, on in known.items() if on != FLAG_CODES[code].default}
    return changed | {code: True for code in ticked if code not in known}


def check_groups(form: Fields) -> tuple[CheckGroup, ...]:
    """Every check that can be switched, as the form has it."""
    changed = chosen_checks(form)
    return tuple(
        CheckGroup(
            title,
            tuple(
                CheckBox(flag, changed.get(flag.code, flag.default))
                for flag in FLAG_CODES.values()
                if flag.needs == needs and is_switchable(flag.code)
            ),
        )
        for needs, title in _WHEN
    )


def suggestions(ctx: Context, form: Fields, backends: Sequence[Backend]) -> tuple[Suggested, ...]:
    """What fits the tokenizer in the form, else those of the chosen backends, else of all: the first few that lie here.

    A tokenizer that a hub would have to send is left to the preview: a form must not wait for it.
    """
    chosen = set(form.all("backend_ids"))
    among = [backend for backend in backends if str(backend.id) in chosen] or backends
    named: Iterable[str | None] = (
        [form.get("tokenizer")] if form.get("tokenizer") else (server_facts(backend).tokenizer for backend in among)
    )
    found: list[Suggested] = []
    for name in dict.fromkeys(named):
        if not name or len(found) == _MOST_SUGGESTED or not _is_here(ctx, name):
            continue
        try:
            fit = suggest(ctx.tokenizers.get(name, fetch=False))
        except TokensError:
            continue  # the preview says what is wrong, at its field
        found.append(Suggested(name, fit.name, fit.reason, f"/token-formats?{urlencode({'tokenizer': name})}"))
    return tuple(found)


def _is_here(ctx: Context, name: str) -> bool:
    if "\0" in name:
        return False
    try:
        return any((Path(root) / name).is_dir() for root in ctx.settings.model_roots)
    except OSError:
        return False
