"""The frame of every page: templates, who is looking, and the pages for errors and for logging in."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from jinja2_fragments import render_block
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.auth import Identity, LoginForm, allows
from api.auth.pages import local_path
from api.errors import Problem
from web import strip, words
from web.assets import asset

_THEMES = frozenset({"light", "dark"})


@dataclass(frozen=True, slots=True)
class Twin:
    """The REST call that gives or does what the page shows."""

    path: str
    method: str = "GET"
    body: str | None = None
    query: str = ""

    def command(self, base: str) -> str:
        """The call as curl, for a POSIX shell."""
        target = f"{base}{self.path}{'?' + self.query if self.query else ''}"
        parts = ["curl", '-H "Authorization: Bearer $DRAFTMILL_TOKEN"']
        if self.method != "GET":
            parts.append(f"-X {self.method}")
        if self.body is not None:
            parts += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(self.body)}"]
        return " ".join([*parts, shlex.quote(target)])


@dataclass(frozen=True, slots=True)
class Frame:
    """What the layout needs of the request: who is looking, and how."""

    user: Identity | None
    csrf: str
    theme: str
    path: str
    base: str

    def may(self, role: str) -> bool:
        """Whether the reader's role reaches `role`."""
        return self.user is not None and allows(self.user.role, role)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals["asset"] = asset
    environment.filters.update(
        {
            "count": words.count,
            "rate": words.rate,
            "share": words.share,
            "percent": words.percent,
            "size": words.size,
            "duration": words.duration,
            "since": words.since,
            "stamp": words.stamp,
            "clock": words.clock,
            "word": words.word,
            "tone": words.tone,
            "hex": words.hex_bytes,
            "pretty": words.pretty_value,
            "plain": words.plain,
            "fvalue": words.filter_value,
            "visible": strip.text_mark,
            "meaning": words.meaning,
        }
    )
    # As globals, so that a block drawn alone (a live part) has them too: it does not run the imports at a template's top.
    environment.globals["p"] = environment.get_template("parts.html").module
    environment.globals["sp"] = environment.get_template("sample_prompt.html").module
    environment.globals["se"] = environment.get_template("sample_engine.html").module
    return environment


templates = _environment()


def frame(request: Request) -> Frame:
    """The frame for this request; nobody's where nobody is logged in (log-in page, early errors)."""
    user: Identity | None = getattr(request.state, "identity", None)
    theme = request.cookies.get("theme", "")
    return Frame(
        user=user,
        csrf=user.csrf if user is not None else "",
        theme=theme if theme in _THEMES else "",
        path=request.url.path,
        base=str(request.base_url).rstrip("/"),
    )


def page(
    request: Request,
    template: str,
    view: Mapping[str, Any],
    *,
    status: int = 200,
    block: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> HTMLResponse:
    """A page, or one block of it for a live part.

    Args:
        request: for the frame.
        template: file below `templates/`.
        view: what the template shows: view models and frozen page models, never table rows.
        status: HTTP status.
        block: render this block alone.
        headers: added; the security headers are set for all answers alike, in `api.guards`.
    """
    values = {"frame": frame(request), **view}
    if block is None:
        html = templates.get_template(template).render(values)
    else:
        html = render_block(templates, template, block, values)
    return HTMLResponse(html, status, headers={"Cache-Control": "no-store", **(headers or {})})


def see(target: str) -> RedirectResponse:
    """After a form: look at `target` (303, so that a reload repeats nothing)."""
    return RedirectResponse(target, 303, headers={"Cache-Control": "no-store"})


def login_page(request: Request, form: LoginForm) -> Response:
    """Hook for `api.auth`: the log-in page."""
    return page(request, "login.html", {"form": form}, status=form.status)


_HEADINGS = {
    401: "You are not logged in",
    403: "Not with your role",
    404: "Not here",
    409: "Not now",
    412: "Somebody was faster",
    413: "Too large",
    422: "This cannot be read",
    500: "Something failed on our side",
    503: "Not available now",
}


def error_page(request: Request, problem: Problem) -> Response:
    """Hook for `api.errors`: the problem in words, with the way back."""
    heading = (
        "Not meant, it seems"
        if problem.code in {"csrf", "foreign_origin"}
        else _HEADINGS.get(problem.status, problem.title)
    )
    referer = request.headers.get("referer", "")
    base = str(request.base_url)
    back = "/" + referer.removeprefix(base) if referer.startswith(base) else ""
    back = back if local_path(back) == back else ""  # `//elsewhere` would lead there
    return page(request, "error.html", {"problem": problem, "heading": heading, "back": back}, status=problem.status)
