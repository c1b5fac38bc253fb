"""Why a server ended: the meaning and the cure, in the right direction, with the lines that say it."""

import pytest

from inference.backends.logs.diagnosis import diagnose, seen_while_alive
from inference.backends.logs.failures import KNOWN_FAILURES
from inference.backends.views import BackendErrorView

NOISE = [
    "[t] Ignore import error when loading sglang.srt.models.mamba: No module named 'torchaudio'",
    "[t] OpenAI Responses API (/v1/responses) disabled: init failed (ModuleNotFoundError: No module named 'sglang_harmony')",
    "[t] Load weight begin. avail mem=20.93 GB",
]


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("sglang serve: error: unrecognized arguments: --no-such-flag", "unknown_flag", "--no-such-flag"),
        ("sglang serve: error: argument --dtype: invalid choice: 'int3'", "bad_flag_value", "--dtype"),
        ("sglang serve: error: the following arguments are required: --model-path", "missing_flag", "--model-path"),
        (
            "ValueError: Warning: User-specified context_length (100000) is greater than the derived context_length (4096).",
            "context_too_long",
            "4096",
        ),
        (
            "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/nonexistent/model'.",
            "model_not_found",
            "model_path",
        ),
        ("OSError: We couldn't connect to 'https://example.org' to load the files", "hub_unreachable", "hub"),
        (
            "ValueError: Unrecognized model in /m. Should have a `model_type` key in its config.json.",
            "unrecognized_model",
            "config.json",
        ),
        (
            "AssertionError: the total number of ranks (tp_size = 2) should be smaller than or equal to number of numa node on the machine 1.",
            "cpu_ranks",
            "tp_size to 1",
        ),
        (
            "[t] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30100): address already in use",
            "port_in_use",
            "port",
        ),
        (
            "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, name: EADDRINUSE",
            "inner_port_in_use",
            "Start it again",
        ),
        ("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5557')", "inner_port_in_use", "port"),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "kv_pool_too_small",
            "RAISE",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "oom_serving", "LOWER"),
        ("Exception: Capture cuda graph failed: CUDA out of memory.", "oom_capture", "LOWER"),
        ("OSError: [Errno 28] No space left on device", "disk_full", "Free space"),
        (
            "Please pass the argument `trust_remote_code=True` to allow custom code to be run.",
            "remote_code_needed",
            "DRAFTMILL_ALLOW_REMOTE_CODE",
        ),
        ("fatal error: cuda_fp8.h: No such file or directory", "jit_build", "CUDA toolkit"),
        (
            "[t] Subprocess scheduler_0 (pid=28125) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
            "child_killed",
            "scheduler_0",
        ),
        ("[t] Rank 0 scheduler died during initialization (exit code: -9)", "child_killed", "rank 0"),
        ("[t] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "watchdog", "watchdog_timeout"),
        ("IndexError: index out of range in self", "bad_token_id", "vocabulary"),
    ],
)
def test_a_known_failure_is_told_with_its_cure_and_its_line(line: str, code: str, told: str) -> None:
    found = diagnose([*NOISE, line, "after"], -9, ever_ready=False)
    assert found.code == code
    assert told in found.summary + " " + found.cure
    assert line in found.lines
    assert not any("Ignore import error" in shown for shown in found.lines)


def test_the_most_telling_of_several_lines_wins_over_the_general_one() -> None:
    lines = [
        "[t] Scheduler hit an exception: Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[t] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ]
    assert diagnose(lines, -9, ever_ready=True).code == "oom_serving"


@pytest.mark.parametrize(
    ("code", "ever_ready", "found", "permanent"),
    [
        (2, False, "bad_arguments", True),
        (1, False, "startup_error", True),
        (1, True, "crashed", False),
        (0, True, "ended_itself", False),
        (-9, True, "killed", False),
        (None, True, "killed", False),
        (-11, True, "crashed", False),
    ],
)
def test_without_a_known_line_the_exit_code_is_the_last_resort(
    code: int | None, ever_ready: bool, found: str, permanent: bool
) -> None:
    told = diagnose(NOISE, code, ever_ready=ever_ready)
    assert (told.code, told.permanent) == (found, permanent)


def test_an_exit_code_that_nobody_could_collect_is_said_to_be_unknown() -> None:
    assert "not our child" in diagnose([], None, ever_ready=True, known_exit=False).summary


def test_lines_of_a_good_start_are_no_problem() -> None:
    assert [seen_while_alive(line) for line in NOISE] == [None, None, None]
    seen = seen_while_alive("OSError: [Errno 28] No space left on device")
    assert seen is not None
    assert seen.code == "disk_full"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("[t] ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 1): x", "port_in_use"),
        ("Port is already in use. dist_init_port=1", "port_in_use"),
        ("No space left on device", "disk_full"),
        ("huggingface_hub.errors.GatedRepoError: 401", "gated_model"),
        ("403 Client Error. (Request ID: x)", "gated_model"),
        ("Access to model x/y is restricted.", "gated_model"),
        ("We couldn't connect to 'https://example.org' to load", "hub_unreachable"),
        ("offline mode is enabled.", "hub_unreachable"),
        ("LocalEntryNotFoundError: no", "hub_unreachable"),
        ("Max retries exceeded with url: /x", "hub_unreachable"),
        ("torch.distributed.DistBackendError: NCCL error in: x", "nccl"),
        ("ncclSystemError: System call failed", "nccl"),
        ("torch.distributed.x: Timeout", "nccl"),
        ("ninja: build stopped: subcommand failed.", "jit_build"),
        ("Ninja is required to load C++ extensions", "jit_build"),
        ("nvcc fatal   : Unsupported gpu architecture", "jit_build"),
        ("a.h:1: fatal error: b.h: No such file or directory", "jit_build"),
    ],
)
def test_a_failure_that_leaves_the_process_hanging_is_seen_while_it_lives(line: str, code: str) -> None:
    seen = seen_while_alive(line)
    assert seen is not None
    assert seen.code == code


def test_every_known_failure_says_what_to_do() -> None:
    for known in KNOWN_FAILURES:
        groups = ["x"] * known.pattern.groups
        assert known.summary.format(*groups).endswith(".")
        assert known.cure.format(*groups).endswith(".")


@pytest.mark.parametrize("exit_code", [-9, 0, 1, 3, None])
def test_every_diagnosis_can_be_shown_as_it_is_stored(exit_code: int | None) -> None:
    for lines in (NOISE, [*NOISE, "Subprocess scheduler_0 (pid=7) crashed with exit code -9. Triggering SIGQUIT"]):
        stored = diagnose(lines, exit_code, ever_ready=True).to_json()
        shown = BackendErrorView.model_validate(stored)
        assert (shown.code, shown.summary) == (stored["code"], stored["summary"])
