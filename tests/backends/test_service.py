"""Backends as people handle them: what is refused, with which field, and what each state allows."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from sqlmodel import Session

from db.engine import Database
from db.errors import Conflict, DomainError, Invalid, NotFound, Unavailable
from db.states import BACKEND_MOVES
from db.tables import Backend
from inference.backends.service import (
    BackendChanges,
    NewBackend,
    allowed_actions,
    backend_view,
    create_backend,
    delete_backend,
    get_backend,
    list_backends,
    list_events,
    patch_backend,
    request_action,
)
from inference.settings import Settings

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def model(settings: Settings) -> Path:
    folder = settings.model_roots[0] / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}))
    return folder


def managed(model: Path | str, name: str = "one", **launch: object) -> NewBackend:
    return NewBackend(name=name, launch={"model_path": str(model), **launch})


def refused(s: Session, settings: Settings, new: NewBackend) -> DomainError:
    with pytest.raises(DomainError) as error:
        create_backend(s, settings, new, None)
    return error.value


def test_a_backend_is_made_stopped_and_seen_without_its_key(
    database: Database, settings: Settings, model: Path
) -> None:
    with database.write() as s:
        one = create_backend(s, settings, managed(model, device="cpu"), None)
        two = create_backend(
            s, settings, NewBackend(name="two", kind="attached", url="http://gpu:30000/", api_key=SecretStr(KEY)), None
        )
        assert [backend.name for backend in list_backends(s)] == ["one", "two"]
        view = backend_view(s, one)
        assert view.observed_state == view.desired_state == "stopped"
        assert view.launch == {"model_path": str(model), "device": "cpu"}
        assert view.allowed == ["start", "delete"]
        assert backend_view(s, two).url == "http://gpu:30000"
        assert KEY not in backend_view(s, two).model_dump_json()
        assert two.api_key == KEY


def test_a_model_is_checked_before_any_process(
    database: Database, settings: Settings, model: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "config.json").write_text('{"model_type": "qwen3"}')
    (model.parent / "sneaky").symlink_to(outside)
    (model.parent / "empty").mkdir()
    (model.parent / "broken").mkdir()
    (model.parent / "broken" / "config.json").write_text("{")
    (model.parent / "untyped").mkdir()
    (model.parent / "untyped" / "config.json").write_text("{}")
    with database.write() as s:
        for path, code in (
            (model.parent / "none", "model_path_missing"),
            (outside, "model_path_outside"),
            (model.parent / "sneaky", "model_path_outside"),
            (model / ".." / ".." / "elsewhere", "model_path_outside"),
            (model.parent / "empty", "model_path_not_a_model"),
            (model.parent / "broken", "model_path_not_a_model"),
            (model.parent / "untyped", "model_path_not_a_model"),
            ("nonsense", "model_path_missing"),
        ):
            error = refused(s, settings, managed(path))
            assert (error.code, error.field, error.status) == (code, "launch.model_path", 422)
            assert str(path) in error.message
        assert create_backend(s, settings, managed("Qwen/Qwen3-8B", "hub"), None).model == "Qwen/Qwen3-8B"
        relative = create_backend(s, settings, managed("tiny", "relative"), None)
        assert (relative.launch or {})["model_path"] == str(model)
        error = refused(s, settings, managed(model, tokenizer_path=str(model)))
        assert (error.code, error.field) == ("model_path_not_a_model", "launch.tokenizer_path")
        error = refused(s, settings, managed(model, speculative_algorithm="EAGLE", speculative_draft_model_path="/etc"))
        assert error.field == "launch.speculative_draft_model_path"


def test_a_checkpoints_own_code_runs_only_where_the_operator_allows_it(
    database: Database, settings: Settings, model: Path
) -> None:
    with database.write() as s:
        error = refused(s, settings, managed(model, trust_remote_code=True))
        assert (error.code, error.field) == ("remote_code_not_allowed", "launch.trust_remote_code")
        allowing = settings.model_copy(update={"allow_remote_code": True})
        assert create_backend(s, allowing, managed(model, trust_remote_code=True), None).id


@pytest.mark.parametrize(
    ("new", "field"),
    [
        ({"kind": "managed"}, "launch"),
        ({"kind": "managed", "launch": {"model_path": "a/b"}, "url": "http://h"}, "url"),
        ({"kind": "managed", "launch": {"model_path": "a/b"}, "api_key": "k"}, "api_key"),
        ({"kind": "attached"}, "url"),
        ({"kind": "attached", "url": "http://h", "launch": {"model_path": "a/b"}}, "launch"),
        ({"kind": "attached", "url": "ftp://h"}, "url"),
        ({"kind": "attached", "url": "http://"}, "url"),
        ({"kind": "attached", "url": "http://h:99999"}, "url"),
        ({"kind": "attached", "url": "http://u:p@h"}, "url"),
        ({"kind": "attached", "url": "http://h/?key=1"}, "url"),
        ({"kind": "attached", "url": "http://a b"}, "url"),
        ({"kind": "attached", "url": "http://h/<b>"}, "url"),
        ({"kind": "attached", "url": "http://ex\u2044ample"}, "url"),
        ({"name": " ", "kind": "attached", "url": "http://h"}, "name"),
        ({"name": "a\tb", "kind": "attached", "url": "http://h"}, "name"),
    ],
)
def test_a_field_out_of_place_is_named(database: Database, settings: Settings, new: dict, field: str) -> None:
    with database.write() as s:
        error = refused(s, settings, NewBackend(**{"name": "x", **new}))
        assert isinstance(error, Invalid)
        assert error.field == field


def test_a_name_is_taken_once(database: Database, settings: Settings, model: Path) -> None:
    with database.write() as s:
        create_backend(s, settings, managed(model), None)
        assert refused(s, settings, managed(model, " one ")).code == "backend_name_taken"
        two = create_backend(s, settings, managed(model, "two"), None)
        with pytest.raises(Conflict):
            patch_backend(s, settings, two.id or 0, BackendChanges(name="one"))
        assert patch_backend(s, settings, two.id or 0, BackendChanges(name="two")).name == "two"


def test_a_second_start_is_refused_with_the_moves_allowed(database: Database, settings: Settings, model: Path) -> None:
    with database.write() as s:
        one = create_backend(s, settings, managed(model), None).id or 0
        assert request_action(s, one, "start").desired_state == "running"
        with pytest.raises(Conflict) as error:
            request_action(s, one, "start")
        assert (error.value.code, error.value.allowed) == ("illegal_move", ("stop",))
        assert "about to be started" in error.value.message
        with pytest.raises(Invalid):
            request_action(s, one, "explode")
        with pytest.raises(NotFound):
            request_action(s, 999, "start")
        assert [event.kind for event in list_events(s, one).items] == ["start_requested", "created"]


def test_a_start_is_checked_again_where_settings_are_given(
    database: Database, settings: Settings, model: Path, tmp_path: Path
) -> None:
    with database.write() as s:
        one = create_backend(s, settings, managed(model), None).id or 0
        without = settings.model_copy(update={"sglang_python": tmp_path / "nowhere" / "python"})
        with pytest.raises(Unavailable) as error:
            request_action(s, one, "start", settings=without)
        assert error.value.code == "sglang_missing"
        assert "make engine" in error.value.message
        (model / "config.json").unlink()
        with pytest.raises(Invalid):
            request_action(s, one, "start", settings=without)


@pytest.mark.parametrize("state", sorted(BACKEND_MOVES))
@pytest.mark.parametrize("wanted", ["running", "stopped"])
@pytest.mark.parametrize("kind", ["managed", "attached"])
def test_something_can_always_be_done(state: str, wanted: str, kind: str) -> None:
    backend = Backend(name="x", kind=kind, observed_state=state, desired_state=wanted)
    allowed = allowed_actions(backend)
    assert {"start", "stop", "forget"} & set(allowed)
    assert (state == "unknown") == ("forget" in allowed)
    assert ("delete" in allowed) <= (state in {"stopped", "failed"})
    assert ("restart" in allowed) <= (kind == "managed" and wanted == "running")


def test_how_it_is_started_changes_only_at_rest(database: Database, settings: Settings, model: Path) -> None:
    with database.write() as s:
        row = create_backend(s, settings, managed(model), None)
        one = row.id or 0
        patched = patch_backend(
            s, settings, one, BackendChanges.model_validate({"launch": {"model_path": str(model), "tp_size": 2}})
        )
        assert patched.launch == {"model_path": str(model), "tp_size": 2}
        with pytest.raises(Invalid) as error:
            patch_backend(s, settings, one, BackendChanges(url="http://h"))
        assert error.value.field == "url"
        row.desired_state, row.observed_state = "running", "ready"
        with pytest.raises(Conflict) as conflict:
            patch_backend(s, settings, one, BackendChanges.model_validate({"launch": {"model_path": str(model)}}))
        assert "stop" in conflict.value.allowed
        assert patch_backend(s, settings, one, BackendChanges(name="renamed")).name == "renamed"
        with pytest.raises(Conflict):
            delete_backend(s, settings, one)
        row.desired_state = row.observed_state = "stopped"
        delete_backend(s, settings, one)
        with pytest.raises(NotFound):
            get_backend(s, one)


def test_the_logs_of_a_removed_backend_go_with_it_once_that_is_committed(
    database: Database, settings: Settings, model: Path
) -> None:
    with database.write() as s:
        one, two = (create_backend(s, settings, managed(model, name), None).id or 0 for name in ("one", "two"))
    logs = {number: settings.data_dir / "logs" / f"backend-{number}" / "start-1.log" for number in (one, two)}
    for log in logs.values():
        log.parent.mkdir(parents=True)
        log.touch()
    with database.write() as s:
        delete_backend(s, settings, one)
        s.rollback()
    assert logs[one].exists(), "it was not removed after all"
    with database.write() as s:
        delete_backend(s, settings, one)
        assert logs[one].exists()
    assert not logs[one].parent.exists()
    assert logs[two].exists()


def test_history_pages_newest_first_without_gap_or_double(database: Database, settings: Settings, model: Path) -> None:
    with database.write() as s:
        one = create_backend(s, settings, managed(model), None).id or 0
        for _ in range(5):
            request_action(s, one, "start")
            request_action(s, one, "stop")
            get_backend(s, one).desired_state = "stopped"
        seen, after = [], None
        while True:
            page = list_events(s, one, after, 3)
            seen += [event.id for event in page.items]
            after = page.next
            if after is None:
                break
        assert seen == sorted(seen, reverse=True)
        assert len(seen) == 11
        with pytest.raises(Invalid) as error:
            list_events(s, one, "nonsense")
        assert error.value.field == "after"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://good:30000/base", True),
        ("HTTP://GOOD:30000", True),
        ("http://evil:30000", False),
        ("http://good:30001", False),
        ("https://good:30000", False),
        ("http://good", False),
    ],
)
def test_a_key_is_not_sent_to_another_server_than_it_was_given_for(
    database: Database, settings: Settings, url: str, kept: bool
) -> None:
    new = NewBackend.model_validate({"name": "a", "kind": "attached", "url": "http://good:30000", "api_key": "k"})
    with database.write() as s:
        one = create_backend(s, settings, new, None).id or 0
        assert (patch_backend(s, settings, one, BackendChanges(url=url)).api_key == "k") == kept
        both = BackendChanges.model_validate({"url": "http://third", "api_key": "another"})
        assert patch_backend(s, settings, one, both).api_key == "another"


@pytest.mark.parametrize("key", ["a b", "a\r\nX-Header: b", "sch\u00f6n", "k" * 1001])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ValidationError) as error:
        NewBackend.model_validate({"name": "a", "kind": "attached", "url": "http://h", "api_key": key})
    (fault,) = error.value.errors(include_input=False)
    assert fault["loc"] == ("api_key",)
    assert key not in str(fault)


@pytest.mark.parametrize("name", ["~nobody-of-this-name/model", "x" * 300, "org/" + "x" * 300])
def test_a_model_name_that_no_file_system_takes_is_no_fault_of_our_side(
    database: Database, settings: Settings, name: str
) -> None:
    with database.write() as s:
        new = managed(name)
        if name.startswith("org/"):  # a hub may know it
            assert create_backend(s, settings, new, None).model == name
        else:
            assert refused(s, settings, new).code == "model_path_missing"
