"""A server that worked, or nearly, and went down: by a request, a kernel, a hang, or a kill. The most general stand last."""

from inference.backends.logs.known.failure import Known

WARM_UP = (
    Known(
        "proxy",
        r"ProxyError|Tunnel connection failed|Cannot connect to proxy",
        "A proxy stands between the server and what it asks for.",
        "Let NO_PROXY name 127.0.0.1 and localhost, or take the proxy variables out of Draftmill's environment.",
        "requests.exceptions.ProxyError: HTTPConnectionPool(host='127.0.0.1', port=9): Max retries exceeded with url: /model_info",
    ),
    Known(
        "warmup_failed",
        r"Initialization failed\. warmup error",
        "The server's own warm-up request failed.",
        "See the lines: often another process on its port, or a kernel that does not work on this machine.",
        "[t] Initialization failed. warmup error: Traceback (most recent call last):",
        traceback=True,
    ),
)
"""They stand before what speaks of connections, since their tracebacks do too."""

CRASHES = (
    Known(
        "bad_token_id",
        r"IndexError: index out of range in self|device-side assert triggered|vectorized_gather_kernel: Assertion"
        r"|Assertion `(?:srcIndex < srcSelectDimSize|-sizes\[i\] <= index)",
        "A request held a token id outside the model's vocabulary, which kills the whole server.",
        "Draftmill checks ids before it sends them: look for another client of this server, or a tokenizer that is not the "
        "model's.",
        "IndexError: index out of range in self",
    ),
    Known(
        "empty_prompt",
        r"IndexError: index is out of bounds for dimension with size 0",
        "A request had an empty prompt, which kills the whole server.",
        "Draftmill never sends one: look for another client of this server.",
        "IndexError: index is out of bounds for dimension with size 0",
    ),
    Known(
        "illegal_memory_access",
        r"an illegal memory access was encountered|CUBLAS_STATUS_(?!SUCCESS)|unspecified launch failure|misaligned address"
        r"|CUDA error: an illegal instruction",
        "The GPU reported an illegal access: a kernel's bug or a sick GPU.",
        "If it recurs, try another launch.attention_backend, and look at `nvidia-smi` and the kernel log for Xid errors.",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    ),
    Known(
        "watchdog",
        r"watchdog timeout \((?!.*soft=True)",  # a soft one only writes down what it sees
        "No step ended within SGLang's watchdog time, and it killed itself.",
        "If single steps are that long here (a first compilation, huge prefills) RAISE watchdog_timeout or LOWER "
        "launch.chunked_prefill_size; else a kernel or a GPU hangs: see the stacks in the log.",
        "[t] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    ),
    Known(
        "group_signalled",
        r"Subprocess (\S+) \(pid=\d+\) crashed with exit code -(?:15|2)\b",
        "Somebody signalled the server's inner process {0} (or its whole process group), which SGLang takes for a crash.",
        "Stop the server here, or signal its main process alone.",
        "[t] Subprocess scheduler_0 (pid=413) crashed with exit code -15. Triggering SIGQUIT for cleanup...",
    ),
    Known(
        "child_killed",
        r"Subprocess (\S+) \(pid=\d+\) crashed with exit code (-9|137)\b",
        "The server's process {0} was killed from outside (SIGKILL) and SGLang shut itself down.",
        "Often the kernel does it for want of main memory: see `dmesg`. Else a person did.",
        "[t] Subprocess scheduler_0 (pid=28125) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
    ),
    Known(
        "child_crashed",
        r"Subprocess (\S+) \(pid=\d+\) crashed with exit code (-?\d+)",
        "The server's process {0} ended with code {1}, without an exception of Python: a library of it crashed.",
        "See the lines above. -11 and -6 are faults of a kernel or driver (try another launch.attention_backend), -7 is a full "
        "/dev/shm, -4 a processor that lacks instructions the engine was built with.",
        "[t] Subprocess scheduler_0 (pid=28125) crashed with exit code -11. Triggering SIGQUIT for cleanup...",
    ),
    Known(
        "child_killed",
        r"Rank (\d+) scheduler died during initialization \(exit code: -9\)",
        "The scheduler of rank {0} was killed while it was loading.",
        "Most often the kernel does it for want of main memory: see `dmesg`, free memory, and on a CPU LOWER launch.max_total_tokens.",
        "[t] Rank 0 scheduler died during initialization (exit code: -9)",
    ),
    Known(
        "child_crashed",
        r"Rank (\d+) scheduler died during initialization \(exit code: (-?\d+)\)",
        "The scheduler of rank {0} ended with code {1} while it was loading.",
        "See the lines above it: -11 and -6 are faults of a library or driver, -7 is a full /dev/shm.",
        "[t] Rank 0 scheduler died during initialization (exit code: -11)",
    ),
    Known(
        "main_process_killed",
        r"BrokenPipeError: \[Errno 32\] Broken pipe",
        "The server's main process was ended from outside while its workers were still loading.",
        "See who did it: a person, or the kernel for want of memory (`dmesg`).",
        "BrokenPipeError: [Errno 32] Broken pipe",
        only_before_ready=True,
    ),
    Known(
        "scheduler_exception",
        r"(Scheduler|DetokenizerManager|DataParallelController|TokenizerManager) hit an exception",
        "SGLang's {0} raised an exception: {error}.",
        "See the traceback's end in the lines.",
        "[t] Scheduler hit an exception: Traceback (most recent call last):",
        traceback=True,
    ),
)
