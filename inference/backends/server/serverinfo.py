"""What is kept of `/server_info`: an allow-list, since the real one has hundreds of keys and gives secrets back in clear."""

from collections.abc import Mapping
from typing import Any

KEPT = (
    "version",
    "model_path",
    "tokenizer_path",
    "served_model_name",
    "context_length",
    "max_total_num_tokens",
    "max_req_input_len",
    "max_running_requests",
    "vocab_size",
    "reasoning_parser",
    "tool_call_parser",
    "allow_auto_truncate",
    "skip_tokenizer_init",
    "enable_deterministic_inference",
    "preferred_sampling_params",
    "dtype",
    "kv_cache_dtype",
    "quantization",
    "device",
    "attention_backend",
    "mem_fraction_static",
    "tp_size",
    "dp_size",
    "pp_size",
    "random_seed",
    "speculative_algorithm",
    "weight_version",
    "status",
)
"""Keys kept at the top; all else is dropped"""

_KEPT_INSIDE = ("effective_max_running_requests_per_dp", "last_gen_throughput", "memory_usage")


def redact(info: Mapping[str, Any]) -> dict[str, Any]:
    """The kept keys, `internal_states` (one per data-parallel rank) cut to its own few; paths are kept, keys and commands are not."""
    kept = {key: info[key] for key in KEPT if key in info}
    if info.get("router_manager"):  # SGLang Model Gateway: how many servers it has is all that it tells of itself
        workers = info.get("workers_count")
        kept["router_workers"] = workers if isinstance(workers, int) else 1
    states = info.get("internal_states")
    if isinstance(states, list):
        kept["internal_states"] = [
            {key: state[key] for key in _KEPT_INSIDE if key in state} for state in states if isinstance(state, dict)
        ]
    return kept


def running_limit(info: Mapping[str, Any]) -> int | None:
    """How many requests the server runs at once, over all data-parallel ranks; None where it does not say."""
    states = info.get("internal_states")
    each = (
        [s.get("effective_max_running_requests_per_dp") for s in states if isinstance(s, dict)]
        if isinstance(states, list)
        else []
    )
    limits = [n for n in each if type(n) is int]
    limit = info.get("max_running_requests")
    return sum(limits) if limits else limit if type(limit) is int else None
