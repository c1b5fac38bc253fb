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
    }
    assert tracker.last_line_at == T0 + timedelta(seconds=90)


def test_a_health_checks_own_token_is_no_sign_of_work() -> None:
    tracker = PhaseTracker(T0)
    tracker.feed("[t] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00", T0)
    assert tracker.last_tokens_at is None
    tracker.feed("[t] Decode batch, #running-req: 3, #token: 4096, gen throughput (token/s): 987.65", T0)
    assert tracker.last_tokens_at == T0


def test_what_is_left_in_a_drain_is_known() -> None:
    tracker = PhaseTracker(T0)
    tracker.feed(
        "[t] Gracefully exiting... Remaining number of requests 3. Remaining requests remaining_rids=['a'].", T0
    )
    assert tracker.drained_to == 3
