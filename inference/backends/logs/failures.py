"""The failures of SGLang that are known by a line of its log: pattern → what it means → what to change, in the right direction.

From the most telling to the most general: the first that any line matches wins. A new one is one row here.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """One known failure. `pattern` is searched in each line; `{0}`… in `summary` are its groups."""

    code: str
    pattern: re.Pattern[str]
    summary: str
    cure: str
    permanent: bool = False


def _known(code: str, pattern: str, summary: str, cure: str, *, permanent: bool = False) -> Known:
    return Known(code, re.compile(pattern), summary, cure, permanent)


KNOWN_FAILURES: tuple[Known, ...] = (
    _known(
        "unknown_flag",
        r"error: unrecognized arguments: (.+)",
        "SGLang does not know the flag {0}.",
        "Take it out of the launch, or use an SGLang version that has it.",
        permanent=True,
    ),
    _known(
        "bad_flag_value",
        r"error: argument (\S+): (.+)",
        "SGLang refuses the value of {0}: {1}.",
        "Correct the value in the launch.",
        permanent=True,
    ),
    _known(
        "missing_flag",
        r"error: the following arguments are required: (.+)",
        "SGLang misses the flag {0}.",
        "Add it to the launch.",
        permanent=True,
    ),
    _known(
        "context_too_long",
        r"User-specified context_length \((\d+)\) is greater than the derived context_length \((\d+)\)",
        "context_length {0} is more than the model's own {1} tokens.",
        "Set launch.context_length to {1} or less, or leave it out.",
        permanent=True,
    ),
    _known(
        "model_not_found",
        r"Repo id must be in the form .*?: '([^']+)'|does not appear to have a file named (?:config|params)\.json"
        r"|is not a local folder and is not a valid model identifier",
        "There is no model where model_path points to.",
        "Correct launch.model_path: a folder with config.json under a model root, or a hub id.",
        permanent=True,
    ),
    _known(
        "gated_model",
        r"GatedRepoError|401 Client Error|403 Client Error|Access to model .* is restricted",
        "The model hub refuses access to this model.",
        "Accept the model's terms on the hub and set HF_TOKEN for Draftmill, or use a local folder.",
        permanent=True,
    ),
    _known(
        "hub_unreachable",
        r"couldn't connect to 'https?://|offline mode is enabled|LocalEntryNotFoundError|Max retries exceeded with url",
        "The model is not on this machine and the hub cannot be reached.",
        "Download the model into a model root first and give its folder as model_path, or mend the connection.",
        permanent=True,
    ),
    _known(
        "remote_code_needed",
        r"trust_remote_code=True|requires you to execute the (?:configuration|modeling) file|Do you wish to run the custom code",
        "This checkpoint brings Python code of its own and SGLang will not run it unasked.",
        "If you trust it: set DRAFTMILL_ALLOW_REMOTE_CODE=true and launch.trust_remote_code=true.",
        permanent=True,
    ),
    _known(
        "unrecognized_model",
        r"Unrecognized model in (\S+)\. Should have a `model_type`|model type `([^`]+)` but Transformers does not recognize",
        "SGLang does not know what kind of model this is.",
        "Check that the folder's config.json is whole, and that this SGLang supports the model.",
        permanent=True,
    ),
    _known(
        "unsupported_architecture",
        r"Model architectures \[?([^\]]+)\]? (?:are|is) not supported",
        "This SGLang does not support the architecture {0}.",
        "Use an SGLang version that supports it.",
        permanent=True,
    ),
    _known(
        "cpu_ranks",
        r"total number of ranks .* should be smaller than or equal to number of numa node on the machine (\d+)",
        "The CPU engine takes one rank for each NUMA node, and this machine has {0}.",
        "Set launch.tp_size to {0}, or leave it out.",
        permanent=True,
    ),
    _known(
        "port_in_use",
        r"\[Errno 98\] error while attempting to bind on address \('([^']+)', (\d+)\)|Port is already in use",
        "Another process took the port between our check and the server's bind (SGLang binds only after loading).",
        "Nothing to change: the next start takes another port. If it recurs, end what takes ports on this machine.",
    ),
    _known(
        "inner_port_in_use",
        r"EADDRINUSE|[Aa]ddress already in use",
        "Another process holds a port that the server needs for itself (between its ranks, or for NCCL).",
        "Start it again: it takes other ports, unless launch.dist_init_addr or extra_flags name one; then name a free one.",
    ),
    _known(
        "kv_pool_too_small",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "After the weights were loaded no memory was left for the KV cache.",
        "RAISE launch.mem_fraction_static (by 0.02 to 0.05), or use more GPUs (tp_size), a smaller dtype, or end what else "
        "uses the GPU.",
        permanent=True,
    ),
    _known(
        "oom_capture",
        r"Capture cuda graph failed",
        "Capturing CUDA graphs failed, most often for want of memory outside the KV cache.",
        "LOWER launch.mem_fraction_static (by 0.05), or set extra_flags cuda_graph_max_bs_decode to a smaller batch.",
        permanent=True,
    ),
    _known(
        "oom_serving",
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|(?:Prefill|Decode) out of memory",
        "The GPU ran out of memory outside the KV cache.",
        "LOWER launch.mem_fraction_static (by 0.05), chunked_prefill_size or max_running_requests, so that activations fit.",
    ),
    _known(
        "cpu_memory",
        r"DefaultCPUAllocator: can't allocate memory|MemoryError|Cannot allocate memory",
        "The machine ran out of memory.",
        "Set launch.max_total_tokens lower (the KV cache), or free memory.",
        permanent=True,
    ),
    _known(
        "disk_full",
        r"No space left on device",
        "A disk is full.",
        "Free space where the model cache, the temporary folder and Draftmill's data lie.",
        permanent=True,
    ),
    _known(
        "bad_token_id",
        r"IndexError: index out of range in self|device-side assert triggered|vectorized_gather_kernel: Assertion",
        "A request held a token id outside the model's vocabulary, which kills the whole server.",
        "Draftmill checks ids before it sends them: look for another client of this server, or a tokenizer that is not the model's.",
    ),
    _known(
        "illegal_memory_access",
        r"CUDA error: an illegal memory access|CUBLAS_STATUS_|Xid",
        "The GPU reported an illegal access: a kernel's bug or a sick GPU.",
        "If it recurs, try another launch.attention_backend, and look at `nvidia-smi` and the kernel log for Xid errors.",
    ),
    _known(
        "no_gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver|No accelerator \(CUDA",
        "There is no GPU that SGLang can use.",
        'Set launch.device to "cpu" for the CPU engine, or check the driver with `nvidia-smi`.',
        permanent=True,
    ),
    _known(
        "nccl",
        r"NCCL error|ncclSystemError|ncclInternalError|DistBackendError|torch\.distributed.*[Tt]imeout",
        "The GPUs could not talk to each other (NCCL).",
        "Check that all GPUs are free and, with several nodes, that dist_init_addr can be reached from each of them.",
    ),
    _known(
        "jit_build",
        r"ninja: build stopped|fatal error: .*: No such file or directory|nvcc fatal|Ninja is required",
        "Compiling a kernel failed.",
        "Install the CUDA toolkit (nvcc, headers) that fits torch's, or choose another launch.attention_backend.",
        permanent=True,
    ),
    _known(
        "module_missing",
        r"ModuleNotFoundError: No module named '(sglang[^']*|torch|sgl_kernel|transformers)'",
        "The engine's environment lacks the Python module {0}.",
        "Run `make engine` again, or correct DRAFTMILL_SGLANG_PYTHON.",
        permanent=True,
    ),
    _known(
        "warmup_failed",
        r"Initialization failed\. warmup error",
        "The server's own warm-up request failed.",
        "See the lines: often a proxy in the way, or a kernel that does not work on this machine.",
    ),
    _known(
        "watchdog",
        r"Scheduler watchdog timeout|[Ww]atchdog timeout \(",
        "No step ended within SGLang's watchdog time, and it killed itself.",
        "If single steps are that long here (first JIT compile, huge prefills), raise extra_flags watchdog_timeout or lower "
        "chunked_prefill_size.",
    ),
    _known(
        "child_killed",
        r"Subprocess (\S+) \(pid=\d+\) crashed with exit code (-?\d+)",
        "The server's process {0} ended with code {1} and SGLang shut itself down.",
        "Code -9 is a kill from outside, often the kernel's for want of memory: see `dmesg`. Else see the lines.",
    ),
    _known(
        "child_killed",
        r"Rank (\d+) scheduler died during initialization \(exit code: (-?\d+)\)",
        "The scheduler of rank {0} ended with code {1} while loading.",
        "Code -9 is a kill from outside, often the kernel's for want of memory: see `dmesg`, and lower max_total_tokens.",
    ),
    _known(
        "scheduler_exception",
        r"(Scheduler|DetokenizerManager|DataParallelController|TokenizerManager) hit an exception",
        "SGLang's {0} raised an exception.",
        "See the traceback in the lines.",
    ),
)
