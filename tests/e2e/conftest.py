"""One app and one real SGLang server for all end-to-end tests: the engine takes half a minute to start."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.app import ROOT, LiveApp, live_app
from tests.support.engine import demo_model


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApp]:
    """A live app that knows the demo model."""
    model = demo_model()
    with live_app(tmp_path_factory.mktemp("app") / "data", DRAFTMILL_MODEL_ROOTS=str(model.parent)) as running:
        yield running


@pytest.fixture(scope="session")
def prompts(app: LiveApp) -> Any:
    """The demo's prompt set, uploaded."""
    content = (ROOT / "demo" / "prompts.jsonl").read_bytes()
    return app.post("/prompt-sets?name=demo", content=content, headers={"Content-Type": "application/x-ndjson"})


@pytest.fixture(scope="session")
def backend(app: LiveApp) -> Iterator[Any]:
    """A ready real SGLang server, stopped at the end."""
    made = app.post(
        "/backends", {"name": "real", "kind": "managed", "launch": {"model_path": str(demo_model()), "device": "cpu"}}
    )
    app.post(f"/backends/{made['id']}/start")
    app.wait_backend(made["id"], "ready")
    yield app.wait_for(
        lambda: (now := app.get(f"/backends/{made['id']}"))["probe"] and now, 60, "the fidelity probe to be done"
    )
    with contextlib.suppress(AssertionError):
        app.post(f"/backends/{made['id']}/stop")
        app.wait_backend(made["id"], "stopped", "failed", limit_s=60)


@pytest.fixture(scope="session")
def run(app: LiveApp, prompts: Any, backend: Any) -> Any:
    """A finished run over a few prompts of several categories."""
    made = app.post(
        "/runs",
        {
            "name": "first light",
            "prompt_set_id": prompts["id"],
            "backend_ids": [backend["id"]],
            "categories": ["facts", "tools"],
            "limit": 30,
            "sampling": {"max_new_tokens": 64},
            "guard": None,
        },
    )
    return app.wait_run(made["id"], limit_s=280)
