"""Memory: three kinds of it can run out, and the cures of two of them go in opposite directions.

`mem_fraction_static` is the share of a GPU for weights and KV cache. Too low: no room for the cache (raise it). Too high: no
room for what a step computes (lower it).
"""

from inference.backends.logs.known.failure import Known

MEMORY = (
    Known(
        "kv_pool_too_small",
        r"Not enough memory\. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory for the KV cache"
        r"|Not enough GPU memory for hybrid|state cache is too small to serve any requests|leaves no room for the full KV pool"
        r"|cannot fit ONE worst-case request",
        "After the weights were loaded no memory was left for the KV cache.",
        "RAISE launch.mem_fraction_static (by 0.02 to 0.05), or use more GPUs (tp_size), a smaller dtype, or end what else "
        "uses the GPU.",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.8",
        permanent=True,
    ),
    Known(
        "kv_exhausted",
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size",
        "The KV cache had no room for a batch that SGLang had let in.",
        "LOWER launch.max_running_requests, or RAISE launch.mem_fraction_static (or max_total_tokens) so that the cache is larger.",
        "[2026-01-01 00:00:00 TP0] Prefill out of memory. Try to lower your batch size.",
    ),
    Known(
        "oom_capture",
        r"Capture cuda graph failed",
        "Capturing CUDA graphs failed, most often for want of memory outside the KV cache.",
        "LOWER launch.mem_fraction_static (by 0.05), or capture graphs for smaller batches only (cuda_graph_max_bs_decode).",
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.",
        permanent=True,
    ),
    Known(
        "oom_loading",
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|CUDA error: out of memory",
        "The model's weights do not fit into the memory that the GPU has free.",
        "Use more GPUs (RAISE launch.tp_size), a smaller dtype or quantized weights, or end what else uses the GPU.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 23.5 GiB",
        permanent=True,
        only_before_ready=True,
        unless=r"Load weight end",
    ),
    Known(
        "oom_serving",
        r"CUDA out of memory|OutOfMemoryError|HIP out of memory|CUDA error: out of memory",
        "The GPU ran out of memory outside the KV cache.",
        "LOWER launch.mem_fraction_static (by 0.05), chunked_prefill_size or max_running_requests, so that activations fit.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    Known(
        "shared_memory_full",
        r"/dev/[s]hm.*No space left on device|No space left on device.*/dev/[s]hm|Bus error|unable to (?:open|allocate|write to) shared memory"
        r"|insufficient shared memory|Error while creating shared memory segment",
        "Shared memory (/dev/shm) is full or too small.",
        "In a container RAISE its size (--shm-size=16g, or --ipc=host); else delete what ended servers left in /dev/shm.",
        "RuntimeError: unable to open shared memory object </torch_123> in read-write mode: No space left on device (28)",
        permanent=True,
        hangs=True,
    ),
    Known(
        "host_memory_killed",
        r"Out of memory: Killed process|oom-kill:|Memory cgroup out of memory",
        "The kernel killed a process of the server for want of main memory.",
        "Free main memory, or LOWER what the launch takes of it: on a CPU launch.max_total_tokens, else hicache and offloading.",
        "Memory cgroup out of memory: Killed process 4711 (sglang::schedul) total-vm:1kB, anon-rss:1kB",
    ),
    Known(
        "host_memory",
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|MemoryError|Cannot allocate memory|std::bad_alloc"
        r"|cudaErrorHostMemory|failed to map segment from shared object",
        "The machine ran out of main memory.",
        "LOWER launch.max_total_tokens where the server runs on the CPU, or free memory.",
        "RuntimeError: [enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes",
        permanent=True,
    ),
    Known(
        "memory_unbalanced",
        r"RuntimeError: The memory capacity is unbalanced",  # by itself it is a warning
        "One of the GPUs has far less free memory than the others: something else uses it.",
        "End what uses that GPU (see the list of GPUs), or choose other ones.",
        "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes. pre=1, local=2",
        permanent=True,
    ),
)
