"""GPUs and leftovers by REST: who may see them, who may clean, and what is answered. The driver is played."""

import os
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlmodel import select

from db.tables import AuditEntry, Backend, BackendEvent, BackendStart, Leftover
from db.types import now
from inference.backends import machine
from inference.backends.host import gpus
from tests.api.conftest import People
from tests.support.fake_nvml import NVML_ERROR_DRIVER_NOT_LOADED, Device, FakeNvml

MARKER = "draftmill-0123abcd-1-4-0123456789abcdef"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(gpus, "nvml", lambda: fake)
    monkeypatch.setattr(gpus, "_SURVEYOR", gpus.Surveyor())
    monkeypatch.setattr(machine, "FRESH_S", 0.0)
    return fake


def _backend(app: FastAPI, marker: str, *, over: bool) -> int:
    with app.state.context.db.write() as s:
        backend = Backend(name="one", kind="managed")
        s.add(backend)
        s.flush()
        start = BackendStart(backend_id=backend.id, number=4, weight_version=marker, ended_at=now() if over else None)
        s.add(start)
        return backend.id


def _left(app: FastAPI, **columns: Any) -> int:
    with app.state.context.db.write() as s:
        row = Leftover(
            marker=MARKER, pid=4711, pid_started=1_700_000_000.0, name="sglang::scheduler", message="x", **columns
        )
        s.add(row)
        s.flush()
        return row.id


def test_gpus_are_listed_with_the_backend_that_holds_their_memory(
    app: FastAPI, client: TestClient, people: People, play: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend_id = _backend(app, MARKER, over=False)
    monkeypatch.setattr(machine, "marker_of", lambda pid: MARKER if pid == os.getpid() else None)
    play.devices = [
        Device("GPU-a", used=34_000, compute=[(os.getpid(), 33_000), (2**22 + 1, None)]),
        Device("GPU-b", total=None),
    ]
    answer = client.get("/api/v1/gpus", headers=people.reviewer.headers).json()
    first, second = answer["items"]
    assert (first["label"], first["uuid"], first["used_mib"], first["total_mib"]) == ("GPU 0", "GPU-a", 34_000, 143_771)
    ours, other = first["processes"]
    assert (ours["pid"], ours["used_mib"]) == (os.getpid(), 33_000)
    assert ours["owner"] == {"backend_id": backend_id, "name": "one", "start_number": 4, "running": True}
    assert other == {"pid": 2**22 + 1, "name": None, "used_mib": None, "owner": None}
    assert (second["total_mib"], second["used_mib"], second["processes"]) == (None, None, [])
    assert (answer["next"], answer["notes"]) == (None, [])


def test_a_driver_that_does_not_work_is_an_answer_and_no_error(
    client: TestClient, people: People, play: FakeNvml
) -> None:
    play.fails = NVML_ERROR_DRIVER_NOT_LOADED
    answer = client.get("/api/v1/gpus", headers=people.reviewer.headers)
    assert answer.status_code == 200
    assert answer.json()["items"] == []
    assert "load the nvidia kernel module" in answer.json()["notes"][0]


def test_leftovers_are_seen_by_all_and_cleaned_by_operators(app: FastAPI, client: TestClient, people: People) -> None:
    backend_id = _backend(app, MARKER, over=True)
    left = _left(app, memory_mib=2_000, gpu_mib=900, processes=3)
    (shown,) = client.get("/api/v1/leftovers", headers=people.reviewer.headers).json()["items"]
    assert (shown["id"], shown["state"], shown["pid"], shown["processes"]) == (left, "found", 4711, 3)
    assert (shown["memory_mib"], shown["gpu_mib"]) == (2_000, 900)
    assert shown["owner"] == {"backend_id": backend_id, "name": "one", "start_number": 4, "running": False}
    path = f"/api/v1/leftovers/{left}/clean"
    assert client.post(path, headers=people.reviewer.headers).status_code == 403
    for _ in range(2):  # to ask again changes nothing
        answer = client.post(path, headers=people.operator.headers)
        assert (answer.status_code, answer.json()["state"]) == (202, "cleaning")
    with app.state.context.db.read() as s:
        assert s.exec(select(Leftover)).one().clean_requested
        deeds = s.exec(select(AuditEntry).where(AuditEntry.action == "leftover.clean")).all()
        assert {(deed.subject, deed.user_name) for deed in deeds} == {(f"leftover/{left}", people.operator.name)}
        (event,) = s.exec(select(BackendEvent))
        assert (event.kind, event.detail) == ("leftover_clean_requested", {"user_id": people.operator.id})


def test_what_was_cleaned_or_is_gone_cannot_be_cleaned(app: FastAPI, client: TestClient, people: People) -> None:
    left = _left(app, cleaned_at=now())
    assert client.get("/api/v1/leftovers", headers=people.admin.headers).json()["items"][0]["state"] == "cleaned"
    refused = client.post(f"/api/v1/leftovers/{left}/clean", headers=people.admin.headers)
    assert (refused.status_code, refused.json()["code"]) == (409, "leftover_cleaned")
    missing = client.post(f"/api/v1/leftovers/{left + 1}/clean", headers=people.admin.headers)
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    huge = client.post(f"/api/v1/leftovers/{2**63}/clean", headers=people.admin.headers)
    assert huge.status_code == 422


def test_a_leftover_of_no_known_start_has_no_owner(app: FastAPI, client: TestClient, people: People) -> None:
    for _ in range(3):
        _left(app)
    first = client.get("/api/v1/leftovers?limit=2", headers=people.reviewer.headers).json()
    rest = client.get(f"/api/v1/leftovers?after={first['next']}", headers=people.reviewer.headers).json()
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (2, 1, None)
    assert all(item["owner"] is None for item in first["items"])
