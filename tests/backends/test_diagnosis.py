"""Why a server ended: the meaning and the cure, in the right direction, with the lines that say it."""

import re

import pytest

from inference.backends.launch.flags import ALLOWED
from inference.backends.launch.spec import LaunchSpec
from inference.backends.logs.diagnosis import diagnose, seen_while_alive
from inference.backends.logs.failures import KNOWN_FAILURES
from inference.backends.logs.known.failure import Known
from inference.backends.views import BackendErrorView

NOISE = [
    "[t] Ignore import error when loading sglang.srt.models.mamba: No module named 'torchaudio'",
    "[t] OpenAI Responses API (/v1/responses) disabled: init failed (ModuleNotFoundError: No module named 'sglang_harmony')",
    "[t] Load weight begin. avail mem=20.93 GB",
]
PROMPT = "Max retries exceeded with url: /x CUDA out of memory No space left on device Bus error"
HARMLESS = [
    *NOISE,
    "[t] server_args={'model_path': '/m', 'trust_remote_code': True, 'watchdog_timeout': 300, 'crash_dump_folder': None}",
    "[t] Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit",
    "[t] The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre=1.0, local=2.0",
    "[t] Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
    "[t] KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 300",
    "[t] KV pool holds 500 tokens, fewer than --context-length 4096. Lower --context-length, raise --mem-fraction-static, or",
    "[t] FP8 KV cache is not supported on this GPU, falling back to auto.",
    "[t] flashinfer is not installed, please install it for better performance.",
    "[t] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
    f"[t] [http_server] Error: {PROMPT}",
    f"[t] Receive: obj=GenerateReqInput(text='{PROMPT}')",
    f"[t] Finish: obj=GenerateReqInput(text='{PROMPT}'), out={{'text': '{PROMPT}'}}",
    '[t] INFO:     127.0.0.1:5 - "POST /generate?Max retries exceeded with url HTTP/1.1" 200 OK',
    "usage: sglang serve [-h] [--trust-remote-code] [--watchdog-timeout WATCHDOG_TIMEOUT]",
    "[t] Decode batch, #running-req: 1, #token: 47, token usage: 0.00, gen throughput (token/s): 1.0, #queue-req: 0",
]
"""What good servers print, and what their clients make them print."""


@pytest.mark.parametrize("known", KNOWN_FAILURES, ids=lambda known: f"{known.code}: {known.example[:40]}")
def test_a_known_failure_is_told_by_its_line_with_its_meaning_and_its_cure(known: Known) -> None:
    found = diagnose([*HARMLESS, known.example, "after"], -9, ever_ready=not known.only_before_ready)
    assert found.code == known.code
    assert found.permanent == known.permanent
    assert known.example[:600] in found.lines
    for sentence in (found.summary, found.cure):
        assert sentence.endswith(".")
        assert "{" not in sentence
    assert not any("Ignore import error" in shown for shown in found.lines)


@pytest.mark.parametrize("known", KNOWN_FAILURES, ids=lambda known: f"{known.code}: {known.example[:40]}")
def test_a_failure_that_leaves_the_process_hanging_is_seen_while_it_lives(known: Known) -> None:
    seen = seen_while_alive(known.example)
    assert (seen.code if seen is not None else None) == (known.code if known.hangs else None)


@pytest.mark.parametrize("line", HARMLESS)
def test_what_good_servers_and_their_clients_print_is_no_failure(line: str) -> None:
    assert seen_while_alive(line) is None
    for ever_ready in (False, True):
        assert diagnose([line], None, ever_ready=ever_ready).code == "killed"


def test_a_cure_names_only_settings_that_a_launch_has() -> None:
    for known in KNOWN_FAILURES:
        for name in re.findall(r"launch\.(\w+)", known.cure):
            assert name in LaunchSpec.model_fields, f"{known.code}: launch.{name}"
        for name in re.findall(r"extra_flags (\w+)", known.cure):
            assert name in ALLOWED, f"{known.code}: extra_flags {name}"


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LOADED = "[t] Load weight end. elapsed=3.00 s, type=Qwen3ForCausalLM, avail mem=1.10 GB, mem usage=20.00 GB."
CAPTURE = "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("lines", "ever_ready", "code", "direction"),
    [
        (["RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."], False, "kv_pool_too_small", "RAISE launch.mem_fraction_static"),
        ([LOADED, OOM], False, "oom_serving", "LOWER launch.mem_fraction_static"),
        ([OOM], True, "oom_serving", "LOWER launch.mem_fraction_static"),
        ([LOADED, CAPTURE], False, "oom_capture", "LOWER launch.mem_fraction_static"),
        ([OOM], False, "oom_loading", "RAISE launch.tp_size"),
        (["Prefill out of memory. Try to lower your batch size."], True, "kv_exhausted", "RAISE launch.mem_fraction_static"),
    ],
)  # fmt: skip
def test_the_ways_to_run_out_of_memory_have_cures_in_opposite_directions(
    lines: list[str], ever_ready: bool, code: str, direction: str
) -> None:
    found = diagnose([*NOISE, *lines], -9, ever_ready=ever_ready)
    assert found.code == code
    assert direction in found.cure
    opposite = direction.replace("RAISE", "LOWER") if "RAISE" in direction else direction.replace("LOWER", "RAISE")
    assert opposite not in found.cure


def test_the_most_telling_of_several_lines_wins_over_the_general_one() -> None:
    lines = [
        LOADED,
        "[t] Scheduler hit an exception: Traceback (most recent call last):",
        OOM,
        "[t] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ]
    assert diagnose(lines, -9, ever_ready=True).code == "oom_serving"


def test_an_exception_that_nobody_knows_is_told_in_its_own_words_with_the_end_of_its_traceback() -> None:
    frames = [f'  File "/opt/engine/scheduler.py", line {number}, in step' for number in range(40)]
    lines = ["[t] Scheduler hit an exception: Traceback (most recent call last):", *frames, "KeyError: 'no such thing'"]
    found = diagnose([*NOISE, *lines, "", "[t] SIGQUIT received."], -9, ever_ready=True)
    assert found.code == "scheduler_exception"
    assert "KeyError: 'no such thing'." in found.summary
    assert found.lines[0] == lines[0]
    assert found.lines[-1] == lines[-1]
    assert len(found.lines) <= 12


def test_of_a_kernel_that_would_not_compile_the_last_error_block_is_shown_from_its_beginning() -> None:
    build = [
        "[1/3] nvcc -o a.o a.cu",
        "FAILED: a.o",
        "a.cu:1: warning of an earlier attempt",
        "ninja: build stopped: subcommand failed.",
        "[1/2] nvcc -o b.o b.cu",
        "FAILED: [code=1] b.o",
        "nvcc -gencode arch=compute_90a b.cu",
        "b.cu:7:10: fatal error: cuda_fp8.h: No such file or directory",
        "    7 | #include <cuda_fp8.h>",
        "compilation terminated.",
        "ninja: build stopped: subcommand failed.",
    ]
    found = diagnose([*NOISE, *build, "RuntimeError: Ninja build failed. Ninja output:"], 1, ever_ready=False)
    assert found.code == "jit_build"
    assert found.lines == build[5:]


def test_an_error_after_which_the_server_worked_on_is_not_what_ended_it() -> None:
    work = ["[t] Decode batch, #running-req: 1, #token: 47, gen throughput (token/s): 1.0, #queue-req: 0"] * 150
    assert diagnose([OOM, *work], -9, ever_ready=True).code == "killed"
    assert diagnose([OOM, *work[:20]], -9, ever_ready=True).code == "oom_serving"


def test_a_trouble_with_the_hub_that_was_overcome_is_not_what_ended_it() -> None:
    trouble = "requests.exceptions.ReadTimeout: ReadTimeoutError('Read timed out. (read timeout=10)')"
    nccl = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error"
    assert diagnose([trouble, LOADED, nccl], -9, ever_ready=False).code == "nccl"
    assert diagnose([trouble, LOADED], -9, ever_ready=True).code == "killed"
    assert diagnose([trouble], 1, ever_ready=False).code == "download_broken"


def test_a_failed_warm_up_is_no_trouble_of_the_model_hub() -> None:
    lines = [
        "[t] Initialization failed. warmup error: Traceback (most recent call last):",
        "urllib3.exceptions.MaxRetryError: HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded with url: /model_info",
    ]
    assert diagnose(lines, -9, ever_ready=False).code == "warmup_failed"
    assert seen_while_alive(lines[1]) is None


@pytest.mark.parametrize(
    ("code", "ever_ready", "lines", "found", "permanent", "told"),
    [
        (2, False, [], "bad_arguments", True, "refused its arguments"),
        (1, False, ["ValueError: no such thing"], "startup_error", True, "ValueError: no such thing"),
        (3, False, [], "http_failed", False, "HTTP server"),
        (127, False, [], "startup_error", True, "could not run"),
        (1, True, [], "crashed", False, "exit code 1"),
        (0, True, [], "ended_itself", False, "in order"),
        (0, True, ["[t] SIGTERM received. signum=None frame=None. Draining"], "ended_itself", False, "Somebody sent SIGTERM"),
        (0, True, ["[t] Signal SIGTERM received while health check failed. Force exiting."], "ended_itself", False, "were lost"),
        (None, True, ["[t] INFO:     Application shutdown complete."], "ended_itself", False, "in order"),
        (-9, True, [], "killed", False, "killed from outside"),
        (137, True, [], "killed", False, "SIGKILL"),
        (-9, True, ["[t] kill_process_tree called: parent_pid=1, include_parent=True, pid=1"], "crashed", False, "SGLang ended itself"),
        (-9, False, [], "killed", False, "killed from outside"),
        (-15, False, [], "killed", False, "SIGTERM"),
        (-2, True, [], "killed", False, "Ctrl-C"),
        (None, True, [], "killed", False, "killed from outside"),
        (-11, True, [], "crashed", False, "memory that is not its own"),
        (-6, True, [], "crashed", False, "gave up"),
        (-7, True, [], "crashed", False, "shared memory"),
        (-4, False, [], "crashed", False, "instruction"),
        (-64, True, [], "crashed", False, "signal"),
        (77, True, [], "crashed", False, "exit code 77"),
    ],
)  # fmt: skip
def test_without_a_known_line_the_exit_code_is_the_last_resort(
    code: int | None, ever_ready: bool, lines: list[str], found: str, permanent: bool, told: str
) -> None:
    diagnosis = diagnose([*NOISE, *lines], code, ever_ready=ever_ready)
    assert (diagnosis.code, diagnosis.permanent) == (found, permanent)
    assert told in diagnosis.summary


def test_a_kill_while_it_loads_points_to_the_memory_that_a_cpu_server_takes() -> None:
    assert "LOWER launch.max_total_tokens" in diagnose(NOISE, -9, ever_ready=False).cure
    assert "max_total_tokens" not in diagnose(NOISE, -9, ever_ready=True).cure


def test_an_exit_code_that_nobody_could_collect_is_said_to_be_unknown() -> None:
    assert "not our child" in diagnose([], None, ever_ready=True, known_exit=False).summary


@pytest.mark.parametrize("exit_code", [-9, 0, 1, 3, None])
def test_every_diagnosis_can_be_shown_as_it_is_stored(exit_code: int | None) -> None:
    for lines in (NOISE, [*NOISE, "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT"]):
        stored = diagnose(lines, exit_code, ever_ready=True).to_json()
        shown = BackendErrorView.model_validate(stored)
        assert (shown.code, shown.summary) == (stored["code"], stored["summary"])
