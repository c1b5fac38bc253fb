"""Backends as people handle them: make, change, ask for a start or a stop, look.

Nothing here starts or signals a process: an action changes what is *desired*, and the supervisor in the worker brings the
server there. Pages and REST call these functions alike; the caller owns the transaction.
"""

from collections.abc import Callable

from sqlalchemy import event
from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid, NotFound
from db.queries.pages import page_by_id
from db.tables import Backend, BackendEvent, BackendStart, RunBackend
from db.types import now
from inference.backends.actions import ACTIONS, allowed_actions, at_rest, standing
from inference.backends.launch.checks import check_interpreter, check_spec
from inference.backends.launch.spec import LaunchSpec
from inference.backends.launch.stored import to_start
from inference.backends.logs.keeping import drop_folder
from inference.backends.requests import BackendChanges, NewBackend, checked_url, same_server
from inference.backends.server.breaker import as_of
from inference.backends.views import (
    BackendErrorView,
    BackendView,
    BreakerView,
    EventView,
    EvidenceView,
    FiguresView,
    PassedPhaseView,
    PhaseView,
)
from inference.model import Page
from inference.settings import Settings

__all__ = [
    "BackendChanges",
    "NewBackend",
    "allowed_actions",
    "backend_view",
    "create_backend",
    "current_start",
    "delete_backend",
    "get_backend",
    "known_secrets",
    "list_backends",
    "list_events",
    "patch_backend",
    "request_action",
]


def create_backend(s: Session, settings: Settings, new: NewBackend, user_id: int | None) -> Backend:
    """Make a backend, stopped.

    Raises:
        Invalid: a field is missing, out of place, or its path is not a model.
        Conflict: `backend_name_taken`.
    """
    name = _free_name(s, new.name)
    backend = Backend(name=name, kind=new.kind, message="Not started yet.")
    if new.kind == "managed":
        if new.launch is None:
            raise Invalid("launch_missing", "A managed backend needs launch, at least its model_path.", field="launch")
        if new.url is not None or new.api_key is not None:
            field = "url" if new.url is not None else "api_key"
            raise Invalid(
                "field_not_for_kind", f"{field} is for attached backends: a managed one gets its own.", field=field
            )
        backend.launch = _launch_json(settings, new.launch)
        backend.model = new.launch.model_path
    else:
        if new.launch is not None:
            raise Invalid(
                "field_not_for_kind", "launch is for managed backends: an attached one runs already.", field="launch"
            )
        backend.url = checked_url(new.url)
        backend.api_key = new.api_key.get_secret_value() or None if new.api_key is not None else None
    s.add(backend)
    s.flush()
    _record(
        s, backend, "created", f"Created as {'a managed' if new.kind == 'managed' else 'an attached'} backend.", user_id
    )
    return backend


def get_backend(s: Session, backend_id: int) -> Backend:
    """The row.

    Raises:
        NotFound: there is none.
    """
    backend = s.get(Backend, backend_id)
    if backend is None:
        raise NotFound("backend", backend_id)
    return backend


def list_backends(s: Session) -> list[Backend]:
    """All of them, by name."""
    return list(s.exec(select(Backend).order_by(Backend.name)))


def patch_backend(s: Session, settings: Settings, backend_id: int, changes: BackendChanges) -> Backend:
    """Change a backend; how it is started or reached only while it is at rest. A URL of another server comes with its own key.

    Raises:
        NotFound, Invalid: as for `create_backend`.
        Conflict: `backend_running` or `backend_name_taken`.
    """
    backend = get_backend(s, backend_id)
    given = changes.model_fields_set
    if "name" in given and changes.name is not None and changes.name.strip() != backend.name:
        backend.name = _free_name(s, changes.name)
    if given & {"url", "api_key", "launch"}:
        if not at_rest(backend):
            raise Conflict(
                "backend_running",
                f"Backend {backend.name} is {backend.observed_state}: stop it before you change how it is started or reached.",
                allowed=allowed_actions(backend),
            )
        _change_connection(settings, backend, changes, given)
    backend.updated_at = now()
    s.add(backend)
    _record(s, backend, "changed", f"Changed: {', '.join(sorted(given)) or 'nothing'}.", None)
    return backend


def delete_backend(s: Session, settings: Settings, backend_id: int) -> None:
    """Remove a backend at rest that no run names; its logs go once that is committed.

    Raises:
        NotFound: there is none.
        Conflict: `backend_running`, or `backend_in_use` with the runs' numbers.
    """
    backend = get_backend(s, backend_id)
    if not at_rest(backend):
        raise Conflict(
            "backend_running",
            f"Backend {backend.name} is {backend.observed_state}: stop it before you delete it.",
            allowed=allowed_actions(backend),
        )
    runs = s.exec(select(RunBackend.run_id).where(RunBackend.backend_id == backend_id).limit(6)).all()
    if runs:
        raise Conflict(
            "backend_in_use",
            f"Backend {backend.name} is named by run {', '.join(map(str, runs[:5]))}{' and others' if len(runs) > 5 else ''}: "  # noqa: PLR2004
            "delete those runs first.",
            allowed=[action for action in allowed_actions(backend) if action != "delete"],
        )
    s.delete(backend)
    s.flush()
    _once_committed(s, lambda: drop_folder(settings, backend_id))


def request_action(
    s: Session, backend_id: int, action: str, *, settings: Settings | None = None, user_id: int | None = None
) -> Backend:
    """Ask for one of `ACTIONS`; the supervisor does it and the row tells how far it is.

    Args:
        s: a write session.
        backend_id: which.
        action: start, stop, restart, kill, probe or forget.
        settings: given, a start is checked (model, interpreter) before it is accepted; the supervisor checks again.
        user_id: who asks, for the history.

    Raises:
        NotFound: there is no such backend.
        Invalid: there is no such action, or the launch cannot work.
        Conflict: `illegal_move`, with the moves allowed: a second start of a running backend, say.
        Unavailable: `sglang_missing`.
    """
    backend = get_backend(s, backend_id)
    if action not in ACTIONS:
        names = f"{', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}"
        raise Invalid("unknown_action", f"There is no action {action!r}: use {names}.", field="action")
    allowed = allowed_actions(backend)
    if action not in allowed:
        raise Conflict(
            "illegal_move",
            f"Backend {backend.name} {standing(backend)}: {action} is not possible now (possible: {', '.join(allowed) or 'nothing'}).",
            allowed=allowed,
        )
    if action in {"start", "restart"} and settings is not None and backend.launch is not None:
        check_spec(settings, to_start(backend.launch))
        check_interpreter(settings)
    _ask(backend, action)
    backend.updated_at = now()
    s.add(backend)
    _record(s, backend, f"{action}_requested", f"{action.capitalize()} asked for.", user_id)
    return backend


def _ask(backend: Backend, action: str) -> None:
    if action == "start":
        backend.restart_requested = backend.desired_state == "running"  # failed or waiting to retry: again, now
        backend.desired_state = "running"
    elif action == "stop":
        backend.desired_state = "stopped"
        backend.restart_requested = backend.probe_requested = False
    elif action == "restart":
        backend.restart_requested = True
    elif action == "kill":
        backend.kill_requested = True
        if not backend.restart_requested:
            backend.desired_state, backend.probe_requested = "stopped", False
    elif action == "forget":
        backend.forget_requested = True
    else:
        backend.probe_requested = True


def current_start(s: Session, backend: Backend) -> BackendStart | None:
    """The current or last start."""
    return s.get(BackendStart, backend.start_id) if backend.start_id is not None else None


def backend_view(s: Session, backend: Backend) -> BackendView:
    """The backend as people and scripts see it; no key is in it."""
    if backend.id is None:
        raise ValueError("the backend is not stored yet")
    start = current_start(s, backend)
    running = start is not None and start.ended_at is None
    return BackendView(
        id=backend.id,
        name=backend.name,
        kind=backend.kind,
        url=backend.url,
        desired_state=backend.desired_state,
        observed_state=backend.observed_state,
        observed_at=backend.observed_at,
        phase=PhaseView.model_validate(backend.phase) if backend.phase else None,
        message=backend.message,
        evidence=[EvidenceView.model_validate(item) for item in backend.evidence],
        error=BackendErrorView.model_validate(backend.error) if backend.error else None,
        crashes=backend.crashes,
        retry_at=backend.retry_at,
        deadline_at=backend.deadline_at,
        pid=start.pid if start is not None and running else None,
        port=start.port if start is not None and running else None,
        nccl_port=start.nccl_port if start is not None and running else None,
        host=start.host if start is not None and running else None,
        version=backend.version,
        model=backend.model,
        launch=backend.launch,
        command=list(start.command) if start is not None else None,
        environment=start.environment if start is not None else {},
        phases=[PassedPhaseView.model_validate(item) for item in start.phases] if start is not None else [],
        figures=FiguresView.model_validate(backend.figures) if backend.figures else None,
        breaker=BreakerView.model_validate(as_of(backend.breaker, now()) or {}),
        start_number=start.number if start is not None else None,
        started_at=start.started_at if start is not None else None,
        ready_at=start.ready_at if start is not None else None,
        probe=backend.probe,
        server_info=backend.server_info,
        allowed=allowed_actions(backend),
        created_at=backend.created_at,
        updated_at=backend.updated_at,
    )


def known_secrets(backend: Backend) -> tuple[str, ...]:
    """The key values that no log view may show."""
    return (backend.api_key,) if backend.api_key else ()


def list_events(s: Session, backend_id: int, after: str | None = None, limit: int = 50) -> Page[EventView]:
    """The history, newest first; `after` is the `next` of the page before.

    Raises:
        NotFound: there is no such backend.
        Invalid: `bad_cursor` or `bad_limit`.
    """
    get_backend(s, backend_id)
    query = select(BackendEvent).where(BackendEvent.backend_id == backend_id)
    rows, following = page_by_id(s, query, col(BackendEvent.id), after, limit, descending=True)
    items = [
        EventView(id=row.id or 0, at=row.at, kind=row.kind, message=row.message, detail=row.detail) for row in rows
    ]
    return Page(items=items, next=following)


def _once_committed(s: Session, act: Callable[[], None]) -> None:
    """Call `act` when the transaction is committed; never where it is rolled back."""
    acts = [act]
    event.listen(s, "after_rollback", lambda _: acts.clear(), once=True)
    event.listen(s, "after_commit", lambda _: [act() for act in acts], once=True)


def _free_name(s: Session, name: str) -> str:
    name = name.strip()
    if not name or any(not letter.isprintable() for letter in name):
        raise Invalid("bad_name", "name must have printable characters only, and at least one.", field="name")
    if s.exec(select(Backend.id).where(Backend.name == name)).first() is not None:
        raise Conflict(
            "backend_name_taken", f"There is a backend named {name!r} already: choose another name.", field="name"
        )
    return name


def _launch_json(settings: Settings, spec: LaunchSpec) -> dict[str, object]:
    return check_spec(settings, spec).model_dump(mode="json", exclude_defaults=True)


def _change_connection(settings: Settings, backend: Backend, changes: BackendChanges, given: set[str]) -> None:
    wrong = ({"url", "api_key"} if backend.kind == "managed" else {"launch"}) & given
    if wrong:
        field = min(wrong)
        raise Invalid("field_not_for_kind", f"{field} cannot be set on a backend of kind {backend.kind}.", field=field)
    if "launch" in given:
        if changes.launch is None:
            raise Invalid("launch_missing", "A managed backend needs launch, at least its model_path.", field="launch")
        backend.launch = _launch_json(settings, changes.launch)
        backend.model = changes.launch.model_path
    if "url" in given:
        url = checked_url(changes.url)
        if not same_server(backend.url, url):
            backend.api_key = (
                None  # it was given for the other one: nobody may have it sent elsewhere without knowing it
            )
        backend.url = url
    if "api_key" in given:
        backend.api_key = changes.api_key.get_secret_value() or None if changes.api_key is not None else None
    if given & {"launch", "url"}:  # what was known is of another server
        backend.probe = backend.server_info = backend.version = None


def _record(s: Session, backend: Backend, kind: str, message: str, user_id: int | None) -> None:
    detail: dict[str, object] = {} if user_id is None else {"user_id": user_id}
    if backend.id is not None:
        s.add(BackendEvent(backend_id=backend.id, start_id=backend.start_id, kind=kind, message=message, detail=detail))
