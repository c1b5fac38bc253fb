"""What happens when things die in the middle, on real SGLang."""

from typing import Any

import psutil
import pytest

from tests.support.app import LiveApp

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def launch(app: LiveApp, prompts: Any, backend: Any, name: str) -> Any:
    return app.post(
        "/runs",
        {
            "name": name,
            "prompt_set_id": prompts["id"],
            "backend_ids": [backend["id"]],
            "categories": ["explanation"],
            "sampling": {"max_new_tokens": 48},
            "concurrency": 8,
            "guard": None,
        },
    )


def ids_of(app: LiveApp, run_id: int) -> dict[int, list[int]]:
    rows = app.get(f"/runs/{run_id}/samples", limit=500, state="done")["items"]
    return {row["id"]: app.get(f"/samples/{row['id']}/tokens")["output_ids"] for row in rows}


def some_done(app: LiveApp, run_id: int, count: int) -> Any:
    def there() -> Any:
        run = app.get(f"/runs/{run_id}")
        return run if run["counts"]["done"] >= count else None

    return app.wait_for(there, 180, f"{count} samples of run {run_id} to be done")


def test_scheduler_killed_in_mid_run_loses_no_finished_sample(app: LiveApp, prompts: Any, backend: Any) -> None:
    run = launch(app, prompts, backend, "scheduler killed")
    some_done(app, run["id"], 4)
    before = ids_of(app, run["id"])
    main = psutil.Process(app.get(f"/backends/{backend['id']}")["pid"])
    (scheduler,) = [child for child in main.children() if "scheduler" in " ".join(child.cmdline())]
    scheduler.kill()

    def crashed() -> Any:
        now = app.get(f"/backends/{backend['id']}")
        return now if now["observed_state"] != "ready" else None

    seen = app.wait_for(crashed, 60, "the crash to be seen")
    assert seen["message"]
    done = app.wait_run(run["id"], limit_s=280)
    assert done["state"] == "completed", done["reason"]
    assert done["counts"]["done"] == 24
    after = ids_of(app, run["id"])
    assert {key: after[key] for key in before} == before, "what was finished is untouched"
    now = app.get(f"/backends/{backend['id']}")
    assert now["observed_state"] == "ready"
    assert now["start_number"] > backend["start_number"]


def test_killed_app_takes_its_server_and_its_run_back(app: LiveApp, prompts: Any, backend: Any) -> None:
    before = app.wait_backend(backend["id"], "ready")
    run = launch(app, prompts, backend, "app killed")
    some_done(app, run["id"], 2)
    assert app.get(f"/runs/{run['id']}")["counts"]["in_flight"] > 0
    (worker,) = [one for one in psutil.Process(app.pid).children() if "inference.worker" in " ".join(one.cmdline())]
    app.kill()
    worker.kill()  # not even it may say good-bye
    assert psutil.pid_exists(before["pid"]), "the server outlives the app"
    app.start()
    now = app.wait_backend(backend["id"], "ready", limit_s=60)
    assert (now["pid"], now["start_number"]) == (before["pid"], before["start_number"])
    log = app.request("GET", f"/backends/{backend['id']}/logs", params={"tail": 2000}).text
    assert "Load weight begin" in log, "its log is taken back from the beginning"
    done = app.wait_run(run["id"], limit_s=240)
    assert done["counts"]["done"] == 24
    assert len(ids_of(app, run["id"])) == 24
