"""A server's figures by REST and for Prometheus: bounded, true to their time, and silent where nobody looks any more."""

from datetime import timedelta

import pytest
from fastapi import FastAPI

from db.tables import Backend, BackendFigure
from db.types import now


def seed(app: FastAPI, name: str, *, age_s: float = 1.0, readings: int = 0, every_s: float = 10.0) -> int:
    at = now()
    with app.state.context.db.write() as session:
        figures = {"at": (at - timedelta(seconds=age_s)).isoformat(), "source": "loads", "running": 12, "queued": 3,
                   "kv_usage": 0.25, "tokens_per_s": 987.5, "cache_hit": None, "stale_s": 0.2}  # fmt: skip
        backend = Backend(name=name, kind="managed", observed_state="ready", crashes=2, figures=figures)
        backend.breaker = {"state": "half_open", "failures": 5}
        session.add(backend)
        session.flush()
        for number in range(readings):
            moment = at - timedelta(seconds=number * every_s)
            row = BackendFigure(backend_id=backend.id, at=moment, source="loads", running=number % 7, tokens_per_s=10.0)
            session.add(row)
        return backend.id or 0


def test_the_latest_figures_are_in_the_backend(client, app, people):
    number = seed(app, "now")
    shown = client.get(f"/api/v1/backends/{number}", headers=people.reviewer.headers).json()
    assert shown["figures"] | {"at": None} == {"at": None, "source": "loads", "running": 12, "queued": 3, "kv_usage": 0.25,
                                              "tokens_per_s": 987.5, "cache_hit": None, "stale_s": 0.2}  # fmt: skip
    assert shown["breaker"]["state"] == "half_open"


def test_points_are_oldest_first_one_a_step_and_a_gap_stays_one(client, app, people):
    number = seed(app, "past", readings=30)
    path = f"/api/v1/backends/{number}/figures"
    shown = client.get(path, params={"minutes": 10, "step": 60}, headers=people.reviewer.headers).json()
    times = [point["at"] for point in shown["points"]]
    assert times == sorted(times)
    assert 5 <= len(times) <= 6  # five minutes of readings, of ten that were asked for
    assert shown["step_s"] == 60
    assert {point["tokens_per_s"] for point in shown["points"]} == {10.0}
    assert max(point["running"] for point in shown["points"]) == 6
    assert {point["queued"] for point in shown["points"]} == {None}


def test_no_call_brings_more_than_six_hundred_points(client, app, people):
    number = seed(app, "many", readings=700, every_s=1.0)
    path = f"/api/v1/backends/{number}/figures"
    for query in ({}, {"minutes": 10, "step": 1}, {"minutes": 360, "step": 36}, {"minutes": 360}):
        shown = client.get(path, params=query, headers=people.reviewer.headers)
        assert shown.status_code == 200
        assert 0 < len(shown.json()["points"]) <= 601
    refused = client.get(path, params={"minutes": 360, "step": 1}, headers=people.reviewer.headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_step")
    assert "36 or more" in refused.json()["detail"]


@pytest.mark.parametrize("query", [{"minutes": 0}, {"minutes": 361}, {"minutes": "x"}, {"step": 0}])
def test_what_cannot_be_asked_is_refused(client, app, people, query):
    number = seed(app, f"refused {query}")
    answer = client.get(f"/api/v1/backends/{number}/figures", params=query, headers=people.reviewer.headers)
    assert answer.status_code == 422


def test_figures_of_no_backend_are_not_found(client, people):
    assert client.get("/api/v1/backends/99999/figures", headers=people.reviewer.headers).status_code == 404


def test_prometheus_is_told_of_each_backend(client, app, people):
    seed(app, 'odd "name"\\')
    seed(app, "left", age_s=600)
    text = client.get("/metrics", headers=people.reviewer.headers).text
    name = 'backend="odd \\"name\\"\\\\"'
    for line in (
        f"draftmill_backend_up{{{name}}} 1.0",
        f'draftmill_backend_state{{{name},state="ready"}} 1.0',
        f"draftmill_backend_running{{{name}}} 12.0",
        f"draftmill_backend_queued{{{name}}} 3.0",
        f"draftmill_backend_kv_usage{{{name}}} 0.25",
        f"draftmill_backend_tokens_per_second{{{name}}} 987.5",
        f"draftmill_backend_crashes{{{name}}} 2.0",
        f'draftmill_backend_breaker{{{name},state="half_open"}} 1.0',
    ):
        assert line in text
    assert f"draftmill_backend_cache_hit{{{name}}}" not in text  # not told, so no zero
    assert 'draftmill_backend_up{backend="left"} 1.0' in text
    assert 'draftmill_backend_running{backend="left"}' not in text  # nobody renewed it
