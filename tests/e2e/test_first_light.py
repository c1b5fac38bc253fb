"""The main job on real SGLang: exact ids in, exact ids out, cut, judged, exported."""

import contextlib
import json
import sqlite3
from typing import Any

import pytest

from tests.support.app import LiveApp
from tests.support.engine import demo_model

pytestmark = [pytest.mark.engine, pytest.mark.slow]

THINK, UNTHINK, END = 3, 4, 2
"""The demo checkpoint's own ids."""


def samples_of(app: LiveApp, run: Any, **query: Any) -> list[Any]:
    found: list[Any] = []
    after = None
    while True:
        page = app.get(f"/runs/{run['id']}/samples", limit=7, **query, **({"after": after} if after else {}))
        found += page["items"]
        if (after := page["next"]) is None:
            return found


def test_every_sample_holds_the_ids_the_server_made_and_segments_that_tile_them(app: LiveApp, run: Any) -> None:
    samples = samples_of(app, run, state="done")
    assert len(samples) == run["counts"]["done"] == 30
    assert len({sample["id"] for sample in samples}) == 30
    closed = 0
    for row in samples:
        sample, tokens = app.get(f"/samples/{row['id']}"), app.get(f"/samples/{row['id']}/tokens", pieces=1)
        assert len(tokens["output_ids"]) == row["completion_tokens"] > 0
        assert len(tokens["prompt_ids"]) == row["prompt_tokens"]
        assert tokens["prompt_ids"][-1] == THINK, "the template opens the think block itself"
        assert [piece["id"] for piece in tokens["pieces"]] == tokens["output_ids"]
        edges = [0, *(segment["end"] for segment in sample["segments"])]
        assert [segment["start"] for segment in sample["segments"]] == edges[:-1]
        assert edges[-1] == len(tokens["output_ids"])
        if row["finish_reason"] == "stop":
            assert tokens["output_ids"][-1] == END
        if UNTHINK in tokens["output_ids"]:
            closed += 1
            first = tokens["output_ids"].index(UNTHINK)
            control = [s for s in sample["segments"] if s["kind"] == "control" and s["start"] <= first < s["end"]]
            assert control, "the close of the think block is a segment of its own"
    assert closed, "at least one answer closes its think block"


def test_real_faults_are_flagged(app: LiveApp, run: Any) -> None:
    stats = app.get(f"/runs/{run['id']}/stats")
    assert sum(stats["flags"].values()) > 0
    assert stats["finish_reasons"]["stop"] + stats["finish_reasons"].get("length", 0) == 30
    for row in samples_of(app, run, flag="truncated"):
        assert row["finish_reason"] == "length"


def test_nothing_was_sampled_at_a_default_nobody_saw(app: LiveApp, run: Any) -> None:
    settings = run["settings"]
    assert settings["sampling"]["max_new_tokens"] == 64, "as asked"
    assert settings["sampling"]["temperature"] == 0.6, "from the model's generation_config.json"
    assert "generation_config" in settings["sources"]["sampling.temperature"]
    assert settings["token_format"] == "qwen3"
    assert len(run["fingerprint"]) == 64


def test_the_probe_shows_what_text_and_chat_lose(backend: Any) -> None:
    probe = backend["probe"]
    assert probe["ok"], probe
    losses = " ".join(map(str, probe["three_ways"]["losses"]))
    assert "</think>" in losses or "<|im_end|>" in losses


def test_no_key_of_the_server_is_shown_anywhere(app: LiveApp, backend: Any) -> None:
    with contextlib.closing(sqlite3.connect(app.data_dir / "draftmill.sqlite")) as database:
        (key,) = database.execute("SELECT api_key FROM backends WHERE id = ?", [backend["id"]]).fetchone()
    assert len(key) >= 16
    assert not list(app.data_dir.rglob("*.yaml")), "the file that told the server its key is gone once it was read"
    for file in app.data_dir.rglob("*"):
        assert file.stat().st_mode & 0o077 == 0, file
    shown = json.dumps(app.get(f"/backends/{backend['id']}"))
    shown += json.dumps(app.get(f"/backends/{backend['id']}/events", limit=500))
    shown += app.request("GET", f"/backends/{backend['id']}/logs", params={"tail": 5000}).text
    assert "server_args" in shown, "the line that prints keys is in the log"
    assert key not in shown


def test_reviewed_samples_are_exported_as_trainable_rows(app: LiveApp, run: Any) -> None:
    samples = samples_of(app, run, state="done", finish="stop")
    bad, good = samples[0], samples[1]
    app.put(f"/samples/{bad['id']}/review", {"verdict": "bad", "tags": [], "note": "wrong"})
    app.put(f"/samples/{good['id']}/review", {"verdict": "good", "tags": [], "note": ""})
    made = app.post(f"/runs/{run['id']}/exports", {"format": "input_ids_jsonl", "options": {"include_flagged": True}})
    done = app.wait_for(
        lambda: (export := app.get(f"/exports/{made['id']}"))["state"] == "done" and export, 60, "the export to be done"
    )
    assert done["counts"]["left_out"], "what was left out is counted by reason"
    assert done["counts"]["exported"] + sum(done["counts"]["left_out"].values()) == 30
    rows = [
        json.loads(line)
        for file in done["files"]
        if file["name"].endswith(".jsonl")
        for line in app.request("GET", f"/exports/{made['id']}/files/{file['name']}").text.splitlines()
    ]
    assert len(rows) == done["counts"]["exported"] > 0
    tokens = app.get(f"/samples/{good['id']}/tokens")
    whole = tokens["prompt_ids"] + tokens["output_ids"]
    (mine,) = [row for row in rows if row["input_ids"] == whole]
    assert mine["loss_mask"] == [0] * len(tokens["prompt_ids"]) + [1] * len(tokens["output_ids"])
    refused = app.get(f"/samples/{bad['id']}/tokens")
    assert refused["prompt_ids"] + refused["output_ids"] not in [row["input_ids"] for row in rows]


def test_a_filter_regenerated_keeps_the_old_attempts(app: LiveApp, run: Any) -> None:
    before = samples_of(app, run, category="tools")
    app.post(f"/runs/{run['id']}/regenerate", {"filter": {"category": ["tools"]}})
    app.wait_run(run["id"], limit_s=240)
    after = samples_of(app, run, category="tools")
    assert [s["id"] for s in after] == [s["id"] for s in before]
    for row in after:
        assert (row["attempt"], row["attempts"]) == (2, 2)
        first = app.get(f"/samples/{row['id']}/tokens", attempt=1)
        assert first["attempt"] == 1
        assert first["output_ids"]
    facts = samples_of(app, run, category="facts")
    assert {row["attempts"] for row in facts} == {1}, "only the filter was made again"


def test_a_second_start_and_a_wrong_path_get_a_sentence(app: LiveApp, backend: Any) -> None:
    again = app.request("POST", f"/backends/{backend['id']}/start")
    assert again.status_code == 409
    assert "stop" in again.json()["allowed"]
    wrong = app.request(
        "POST",
        "/backends",
        json={"name": "wrong", "kind": "managed", "launch": {"model_path": str(demo_model().parent / "nothing-here")}},
    )
    assert wrong.status_code == 422
    assert "nothing-here" in wrong.json()["detail"]
