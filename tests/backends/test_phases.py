"""How far a start-up is, from lines in the shape of SGLang's."""

from datetime import UTC, datetime, timedelta

from inference.backends.logs.phases import PhaseTracker

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def phases_of(*lines: str) -> list[str]:
    tracker = PhaseTracker(T0)
    seen = [str(tracker.phase)]
    for second, line in enumerate(lines, 1):
        tracker.feed(line, T0 + timedelta(seconds=second))
        if str(tracker.phase) != seen[-1]:
            seen.append(str(tracker.phase))
    return seen


def test_a_good_start_passes_every_phase_in_order() -> None:
    assert phases_of(
        "[2026-01-01 00:00:01] server_args={'model_path': '/m'}",
        "[2026-01-01 00:00:02 TP0] Init parallel begin.",
        "[2026-01-01 00:00:03 TP0] Load weight begin. avail mem=78.10 GB",
        "Multi-thread loading shards:   0% Completed | 0/15 [00:00<?, ?it/s]",
        "Multi-thread loading shards:  33% Completed | 5/15 [00:04<00:08, 1.2it/s]",
        "[2026-01-01 00:00:09 TP0] Load weight end. elapsed=6.1 s, type=Qwen3ForCausalLM, avail mem=60 GB, mem usage=18 GB.",
        "[2026-01-01 00:00:10 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 400000, K size: 20 GB",
        "[2026-01-01 00:00:11 TP0] Capture target decode CUDA graph begin. This can take up to several minutes.",
        "Capturing batches (bs=160 avail_mem=9.8 GB):  10%|█         | 2/20 [00:01<00:09, 1.9it/s]",
        "[2026-01-01 00:00:20 TP0] max_total_num_tokens=400000, context_len=40960",
        "[2026-01-01 00:00:21] INFO:     Uvicorn running on http://127.0.0.1:30100 (Press CTRL+C to quit)",
        "[2026-01-01 00:00:23] The server is fired up and ready to roll!",
    ) == [
        "spawned",
        "initialising",
        "loading weights",
        "loading weights 0/15",
        "loading weights 5/15",
        "memory pool",
        "graphs",
        "graphs 2/20",
        "warm-up",
        "fired up",
    ]


def test_phases_never_go_back_but_a_draft_models_weights_count_anew_within_theirs() -> None:
    assert phases_of(
        "Load weight begin. avail mem=1 GB",
        "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:01<00:00, 3it/s]",
        "Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
        "Load weight end. elapsed=1 s",
        "Load weight begin. avail mem=1 GB",
        "Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 3it/s]",
    ) == ["spawned", "loading weights", "loading weights 4/4", "loading weights 0/1", "memory pool"]


def test_the_phase_keeps_the_time_it_was_entered() -> None:
    tracker = PhaseTracker(T0)
    tracker.feed("Load weight begin.", T0 + timedelta(seconds=5))
    tracker.feed("Loading pt checkpoint shards:  50% Completed | 1/2 [00:00<?, ?it/s]", T0 + timedelta(seconds=90))
    assert tracker.phase.since == T0 + timedelta(seconds=5)
    assert tracker.phase.to_json() == {
        "name": "loading weights",
        "done": 1,
        "total": 2,
        "since": (T0 + timedelta(seconds=5)).isoformat(),
        "left_s": 85.0,
        "counted_at": (T0 + timedelta(seconds=90)).isoformat(),
    }
    assert tracker.last_line_at == T0 + timedelta(seconds=90)


def test_a_health_checks_own_token_is_no_sign_of_work() -> None:
    tracker = PhaseTracker(T0)
    tracker.feed("[t] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00", T0)
    assert tracker.last_tokens_at is None
    tracker.feed("[t] Decode batch, #running-req: 3, #token: 4096, gen throughput (token/s): 987.65", T0)
    assert tracker.last_tokens_at == T0


def test_what_is_left_is_taken_from_the_bar_itself_or_from_the_pace_so_far() -> None:
    tracker = PhaseTracker(T0)
    tracker.feed("Loading safetensors checkpoint shards:  25% Completed | 5/20 [00:10<00:31, 2.1s/it]", T0)
    assert tracker.phase.left_s == 31
    tracker.feed("Loading safetensors checkpoint shards:  50% Completed | 10/20 [1:00:10<1:01:05, 6min/it]", T0)
    assert tracker.phase.left_s == 3665
    paced = PhaseTracker(T0)
    paced.feed("Loading pt checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]", T0)
    assert paced.phase.left_s is None
    paced.feed("Loading pt checkpoint shards:  25% Completed | 1/4 [00:20<?, ?it/s]", T0 + timedelta(seconds=20))
    assert paced.phase.left_s == 60


def test_a_bars_present_state_counts_though_only_its_next_one_would_finish_it() -> None:
    tracker = PhaseTracker(T0)
    shards = "Loading safetensors checkpoint shards:  {} Completed | {}/4 [{}<{}]"
    tracker.look(shards.format(" 0%", 0, "00:00", "?, ?s/it"), T0)
    assert str(tracker.phase) == "loading weights 0/4"
    tracker.feed(shards.format(" 0%", 0, "00:00", "?, ?s/it"), T0 + timedelta(minutes=5))
    tracker.look(shards.format("25%", 1, "05:00", "?, ?s/it"), T0 + timedelta(minutes=5))
    assert (tracker.phase.done, tracker.phase.left_s) == (1, 900), "the pace counts from when it was first seen"
    tracker.look(shards.format("50%", 2, "10:00", "10:00, 300s/it"), T0 + timedelta(minutes=10))
    assert (tracker.phase.done, tracker.phase.left_s) == (2, 600)
    tracker.look("Loading safetensors checkpoint shards:  75% Completed | 3/4 [15:00<05:0", T0 + timedelta(minutes=15))
    assert tracker.phase.done == 2, "what is written by half is left for the next look"
    tracker.look(shards.format("50%", 2, "10:00", "10:00, 300s/it"), T0 + timedelta(minutes=20))
    assert (tracker.phase.counted_at, tracker.last_line_at) == (T0 + timedelta(minutes=10), T0 + timedelta(minutes=10))


def test_each_stage_is_kept_with_the_time_it_was_entered_and_its_last_count() -> None:
    lines = [
        "Load weight begin.",
        "Loading pt checkpoint shards: 100% Completed | 4/4 [00:20<00:00, 5s/it]",
        "Load weight end.",
    ]
    tracker = PhaseTracker(T0)
    for second, line in enumerate(lines, 1):
        tracker.feed(line, T0 + timedelta(seconds=second))
    history = tracker.history()
    assert [(item["name"], item["done"]) for item in history] == [
        ("spawned", None),
        ("loading weights", 4),
        ("memory pool", None),
    ]
    assert history[1]["at"] == (T0 + timedelta(seconds=1)).isoformat()
    again = PhaseTracker(T0, entered={"loading weights": T0 + timedelta(seconds=1)})
    again.feed(lines[0], T0 + timedelta(hours=1))
    assert again.phase.since == T0 + timedelta(seconds=1), (
        "who reads the log again keeps the times of who read it first"
    )


def test_a_part_that_died_is_told_by_the_log_while_the_process_still_lives() -> None:
    for line in (
        "[t] Subprocess scheduler_0 (pid=28125) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
        "[t] Scheduler hit an exception: Traceback (most recent call last):",
        "[t] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ):
        tracker = PhaseTracker(T0)
        tracker.feed('[t] INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK', T0)
        assert tracker.part_died is None
        tracker.feed(line, T0)
        assert tracker.part_died == line
