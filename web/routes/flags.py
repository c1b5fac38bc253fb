"""Every flag that a check can raise, and what it means: where flags everywhere lead."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import Reviewer
from inference.quality.flags import FLAG_CODES, FlagCode
from inference.runs.switches import is_switchable
from web.shell import Twin, page

router = APIRouter(prefix="/flags")

WHEN: Final[Mapping[str, tuple[str, str]]] = {
    "prompt": ("Of the prompt", "looked for when it is rendered, before anything is sent"),
    "ids": ("Of the answer's ids", "looked for as each answer arrives"),
    "text": ("Of the answer's text", "looked for behind the run, soon after an answer is there"),
    "run": ("Beside the run's other answers", "looked for behind the run, once there is something to compare with"),
    "demand": ("On demand", "more work than every sample deserves: only where a run asks for it"),
}
"""{what a check needs: (heading, when it is made)}"""


@dataclass(frozen=True, slots=True)
class Row:
    """A flag code; `fixed` where no run can switch it."""

    flag: FlagCode
    fixed: bool


@dataclass(frozen=True, slots=True)
class Section:
    """The codes that are looked for at the same time."""

    name: str
    title: str
    when: str
    rows: tuple[Row, ...]


def sections() -> tuple[Section, ...]:
    """All flag codes, as declared, by when they are looked for."""
    return tuple(
        Section(
            needs,
            title,
            when,
            tuple(Row(flag, not is_switchable(flag.code)) for flag in FLAG_CODES.values() if flag.needs == needs),
        )
        for needs, (title, when) in WHEN.items()
    )


@router.get("")
def show_flags(request: Request, _: Reviewer) -> Response:
    """All of them, each at an address of its own (`/flags#code`)."""
    return page(request, "flags.html", {"sections": sections(), "twin": Twin("/api/v1/flags", query="limit=500")})
