"""Logs of the real SGLang, good and bad: what each is diagnosed as, in which direction its cure goes, and what is shown of it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from inference.backends.logs.diagnosis import diagnose, search, seen_while_alive
from inference.backends.logs.following import LogFollower
from inference.backends.logs.reading import last_lines

RECORDED = Path(__file__).parent / "recorded"
GOOD = ("kit_think", "sglang_serve", "smol_http")


@dataclass(frozen=True)
class Case:
    """What a recording is held to. `exit_code` is the one that was seen with it."""

    log: str
    exit_code: int | None
    ever_ready: bool
    code: str
    summary: str
    cure: str
    shown: str
    permanent: bool = False


CASES = (
    Case("bad_ctx_too_long", 1, False, "context_too_long", "own 4096 tokens", "LOWER launch.context_length to 4096", "derived context_length", permanent=True),
    Case("bad_empty_dir", 1, False, "unrecognized_model", "what kind of model", "config.json is whole", "Unrecognized model in", permanent=True),
    Case("bad_wrong_path", 1, False, "model_not_found", "no model", "Correct launch.model_path", "'/nonexistent/model'", permanent=True),
    Case("bad_wrong_hub_id", 1, False, "hub_offline", "switched off", "HF_HUB_OFFLINE", "outgoing traffic has been disabled", permanent=True),
    Case("bad_hub_unreachable", 1, False, "hub_unreachable", "cannot be reached", "Mend the connection", "check your connection"),
    Case("bad_unknown_flag", 2, False, "unknown_flag", "--no-such-flag", "Take it out", "unrecognized arguments: --no-such-flag", permanent=True),
    Case("bad_flag_value", 2, False, "bad_flag_value", "--schedule-policy: invalid choice: 'nonsense'", "Correct the value", "invalid choice: 'nonsense'", permanent=True),
    Case("bad_port_in_use", -9, False, "port_in_use", "took the port", "takes another port", "('127.0.0.1', 31005)"),
    Case("bad_tp2", -9, False, "cpu_ranks", "this machine has 1", "LOWER launch.tp_size to 1", "AssertionError", permanent=True),
    Case("bad_no_max_total_tokens", -9, False, "killed", "killed from outside", "LOWER launch.max_total_tokens", "Load weight end"),
    Case("bad_kv_pool_too_small", -9, False, "kv_pool_too_small", "no memory was left for the KV cache", "RAISE launch.mem_fraction_static", "Raise --mem-fraction-static above", permanent=True),
    Case("bad_weights_cut_short", -9, False, "weights_broken", "cut short", "Download the model again", "incomplete metadata", permanent=True),
    Case("bad_no_weights", -9, False, "weights_missing", "no weight files", "safetensors", "Cannot find any model weights", permanent=True),
    Case("bad_no_tokenizer", 1, False, "tokenizer_broken", "tokenizer files", "launch.tokenizer_path", "Couldn't instantiate the backend tokenizer", permanent=True),
    Case("bad_broken_config", 1, False, "config_broken", "not valid JSON", "again", "is not a valid JSON file", permanent=True),
    Case("bad_remote_code", 1, False, "remote_code_needed", "Python code of its own", "launch.trust_remote_code=true", "trust_remote_code=True", permanent=True),
    Case("bad_unknown_architecture", -9, False, "unsupported_architecture", "architecture", "SGLang version that supports it", "FooForCausalLM", permanent=True),
    Case("bad_unsupported_quantization", -9, False, "unsupported_quantization", "quantization", "choose a launch.dtype", "torch.float32 is not supported for quantization method fp8", permanent=True),
    Case("bad_cuda_without_gpu", -9, False, "no_gpu", "no GPU", 'launch.device to "cpu"', "_cuda_setDevice", permanent=True),
    Case("bad_too_many_open_files", -9, False, "too_many_open_files", "limit of open files", "RAISE the limit", "Too many open files", permanent=True),
    Case("crash_empty_text", -9, True, "empty_prompt", "kills the whole server", "another client", "dimension with size 0"),
    Case("fail_kill9_scheduler_inflight", -9, True, "child_killed", "scheduler_0 was killed from outside", "dmesg", "crashed with exit code -9"),
    Case("fail_kill9_detokenizer_inflight", -9, True, "child_killed", "detokenizer was killed from outside", "dmesg", "crashed with exit code -9"),
    Case("fail_kill9_parent_inflight", -9, True, "killed", "without a word of it", "kernel, for want of memory", "Uvicorn running"),
    Case("pg_term_busy", -9, True, "group_signalled", "process group", "signal its main process alone", "crashed with exit code -15"),
    Case("fail_sigint_inflight", -2, True, "killed", "Ctrl-C", "Stop it here", "KeyboardInterrupt"),
    Case("fail_sigterm_inflight", 0, True, "ended_itself", "Somebody sent SIGTERM", "stop it here", "kill_process_tree"),
    Case("fail_sigterm_loading", -15, False, "main_process_killed", "ended from outside", "dmesg", "Broken pipe"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.log)
def test_the_end_of_a_real_server_is_diagnosed_with_the_lines_that_say_it(case: Case) -> None:
    found = diagnose(last_lines(RECORDED / f"{case.log}.log", 400), case.exit_code, ever_ready=case.ever_ready)
    assert found.code == case.code
    assert found.permanent == case.permanent
    assert case.summary in found.summary
    assert case.cure in found.cure
    assert any(case.shown in line for line in found.lines), found.lines
    assert 0 < len(found.lines) <= 12
    assert not any("Ignore import error" in line or "server_args=" in line for line in found.lines)


@pytest.mark.parametrize("log", GOOD)
def test_the_log_of_a_good_server_tells_of_no_failure(log: str) -> None:
    lines = last_lines(RECORDED / f"{log}.log", 400)
    assert len(lines) > 40
    assert search(lines) is None
    assert search(lines, ever_ready=True) is None


@pytest.mark.parametrize("log", [*GOOD, "fail_sigstop_scheduler", "fail_kill9_scheduler_inflight"])
def test_no_line_of_a_start_that_works_is_told_as_a_problem_while_it_starts(log: str) -> None:
    lines = list(LogFollower(RECORDED / f"{log}.log").read())
    assert any("Load weight begin" in line for line in lines)
    assert [line for line in lines if seen_while_alive(line) is not None] == []


def test_a_hung_scheduler_leaves_no_failure_in_the_log() -> None:
    assert search(last_lines(RECORDED / "fail_sigstop_scheduler.log", 400), ever_ready=True) is None


def test_every_recording_is_held_to_something() -> None:
    held = {case.log for case in CASES} | set(GOOD) | {"fail_sigstop_scheduler"}
    assert {file.stem for file in RECORDED.glob("*.log")} == held


def test_no_recording_holds_a_key_or_a_path_of_the_machine_it_was_made_on() -> None:
    for file in RECORDED.glob("*.log"):
        text = file.read_text(encoding="utf-8")
        assert "'api_key': '***'" in text or "'api_key': None" in text or "server_args=" not in text, file.name
        for word in ("/root", "/tmp/", "/srv/"):  # noqa: S108  (looked for, not used)
            assert word not in text, file.name
