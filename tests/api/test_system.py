"""Readiness, figures, the worker's environment and lock, ETags of what people change."""

import asyncio
import fcntl

import pytest
from pydantic import SecretStr

from api.lock import lock_holder
from api.main import open_context
from api.worker import WorkerWatch, worker_environment
from inference.settings import Settings
from tests.api.conftest import own_settings
from tests.api.samples import seed_run
from tests.api.test_edges import assert_problem


def test_readiness_says_what_is_missing(lite_app, lite_client, monkeypatch):
    assert lite_client.get("/readyz").json() == {"status": "ready", "checks": {"database": True}}
    monkeypatch.setattr(lite_app.state, "worker", object())
    answer = lite_client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": True, "worker": False}


def test_metrics_count_samples_by_state_and_requests_by_route(client, app, people):
    seeded = seed_run(app, 4)
    client.get(f"/api/v1/runs/{seeded.run_id}", headers=people.reviewer.headers)
    text = client.get("/metrics", headers=people.reviewer.headers).text
    assert f'draftmill_samples{{run="{seeded.run_id}",state="done"}} 4.0' in text
    assert 'draftmill_runs{state="completed"} 1.0' in text
    assert 'draftmill_http_requests_total{method="GET",route="/api/v1/runs/{run_id}",status="200"}' in text


def test_a_lock_is_seen_without_being_taken(tmp_path):
    path = tmp_path / "worker.lock"
    assert lock_holder(path) is None
    with path.open("w") as held:
        assert lock_holder(path) is None
        fcntl.flock(held, fcntl.LOCK_EX)
        assert lock_holder(path) is not None
        fcntl.flock(held, fcntl.LOCK_UN)
        assert lock_holder(path) is None


def test_the_worker_gets_the_apps_settings_and_not_the_admins_token(tmp_path, monkeypatch):
    settings = own_settings(
        tmp_path, admin_token=SecretStr("secret-of-the-admin"), max_upload_mb=7, sglang_python=tmp_path / "python"
    )
    environment = worker_environment(settings, {"PATH": "/bin", "DRAFTMILL_ADMIN_TOKEN": "secret-of-the-admin"})
    assert "secret-of-the-admin" not in environment.values()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DRAFTMILL_ADMIN_TOKEN", raising=False)
    seen = Settings(_env_file=None)
    for name in set(Settings.model_fields) - {"admin_token", "database_url"}:
        assert getattr(seen, name) == getattr(settings, name), name
    assert seen.resolved_database_url == settings.resolved_database_url


def test_a_worker_that_keeps_dying_is_started_later_each_time(tmp_path, monkeypatch):
    waits: list[float] = []
    stop = asyncio.Event()

    async def no_wait(_stop: asyncio.Event, seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 8:
            stop.set()

    class Dead:
        pid = 1

        def poll(self) -> int:
            return 1

        def stop(self, _deadline: float) -> int:
            return 1

    monkeypatch.setattr("api.worker._sleep", no_wait)
    watch = WorkerWatch(own_settings(tmp_path), spawn=Dead)
    asyncio.run(watch.run(stop))
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert watch.state.last_exit == 1


def new_backend(client, people) -> dict:
    body = {"name": "attached", "kind": "attached", "url": "http://127.0.0.1:9", "api_key": "sk-secret-key"}
    answer = client.post("/api/v1/backends", json=body, headers=people.operator.headers)
    assert answer.status_code == 201, answer.text
    assert "sk-secret-key" not in answer.text
    return answer.json()


def test_a_change_to_a_version_that_is_no_longer_is_refused(client, people):
    path = f"/api/v1/backends/{new_backend(client, people)['id']}"
    seen = client.get(path, headers=people.operator.headers).headers["etag"]
    first = client.patch(path, json={"name": "first"}, headers={**people.operator.headers, "If-Match": seen})
    assert first.status_code == 200
    stale = client.patch(path, json={"name": "second"}, headers={**people.operator.headers, "If-Match": seen})
    assert_problem(stale, 412, "changed_elsewhere")
    assert client.delete(path, headers={**people.operator.headers, "If-Match": seen}).status_code == 412
    current = first.headers["etag"]
    assert client.delete(path, headers={**people.operator.headers, "If-Match": f'"x", {current}'}).status_code == 204


def test_a_run_is_steered_only_as_it_was_seen(app, client, people):
    path = f"/api/v1/runs/{seed_run(app, state='queued').run_id}"
    seen = {**people.operator.headers, "If-Match": client.get(path, headers=people.operator.headers).headers["etag"]}
    assert client.post(f"{path}/pause", headers=seen).status_code == 202
    for action in ("resume", "cancel", "retry", "rederive"):
        assert_problem(client.post(f"{path}/{action}", headers=seen), 412, "changed_elsewhere")
    assert_problem(client.post(f"{path}/regenerate", json={"filter": {}}, headers=seen), 412, "changed_elsewhere")
    assert_problem(client.delete(path, headers=seen), 412, "changed_elsewhere")
    assert client.get(path, headers=people.operator.headers).json()["state"] == "paused"
    fresh = client.get(path, headers=people.operator.headers).headers["etag"]
    assert client.delete(path, headers={**people.operator.headers, "If-Match": fresh}).status_code == 204


def test_a_prompt_set_is_deleted_only_as_it_was_seen(app, client, people):
    path = f"/api/v1/prompt-sets/{seed_run(app).prompt_set_id}"
    seen = client.get(path, headers=people.operator.headers).headers["etag"]
    stale = {**people.operator.headers, "If-Match": '"another"'}
    assert_problem(client.delete(path, headers=stale), 412, "changed_elsewhere")
    used = client.delete(path, headers={**people.operator.headers, "If-Match": seen})
    assert used.status_code == 409  # let through to the rule that keeps it


def test_a_user_is_changed_only_as_they_were_seen(client, people):
    path = f"/api/v1/users/{people.reviewer.id}"
    seen = {**people.admin.headers, "If-Match": client.get(path, headers=people.admin.headers).headers["etag"]}
    changed = client.patch(path, json={"role": "operator"}, headers=seen)
    assert changed.status_code == 200
    assert_problem(client.patch(path, json={"role": "admin"}, headers=seen), 412, "changed_elsewhere")
    assert_problem(client.delete(path, headers=seen), 412, "changed_elsewhere")
    fresh = {**people.admin.headers, "If-Match": changed.headers["etag"]}
    assert client.delete(path, headers=fresh).status_code == 204


def test_an_action_answers_202_and_a_second_start_is_a_conflict_with_the_moves_allowed(client, people):
    path = f"/api/v1/backends/{new_backend(client, people)['id']}"
    answer = client.post(f"{path}/start", headers=people.operator.headers)
    assert (answer.status_code, answer.json()["desired_state"]) == (202, "running")
    again = assert_problem(client.post(f"{path}/start", headers=people.operator.headers), 409, "illegal_move")
    assert "stop" in again["allowed"]
    assert "start" not in again["allowed"]
    assert_problem(client.post(f"{path}/explode", headers=people.operator.headers), 422, "invalid", "action")


@pytest.mark.parametrize("path", ["token-formats", "flags", "export-formats"])
def test_what_there_is_to_choose_is_listed(lite_client, lite_people, path):
    items = lite_client.get(f"/api/v1/{path}", headers=lite_people.reviewer.headers).json()["items"]
    assert items
    assert all(item.get("meaning") or item.get("title") or item.get("description") for item in items)


def test_a_folder_that_others_use_keeps_its_mode_and_ours_is_for_us_alone(tmp_path):
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir(mode=0o755)
    (shared / "somebody elses").touch()
    for folder, mode in ((shared, 0o755), (own, 0o700)):
        ctx = open_context(own_settings(tmp_path, data_dir=folder))
        ctx.ids.close()
        ctx.db.dispose()
        assert folder.stat().st_mode & 0o777 == mode
        assert (folder / "draftmill.sqlite").stat().st_mode & 0o777 == 0o600
