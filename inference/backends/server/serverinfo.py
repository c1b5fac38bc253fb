"""What is kept of `/server_info`: an allow-list, since the real one has hundreds of keys and gives secrets back in clear."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

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


_UNSHOWN = re.compile("[\\0-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")
"""Controls, and what turns round the text that follows it on a page"""

MAX_TEXT, MAX_VALUE = 1000, 65_536
"""Letters of a text that are kept, and bytes of JSON of anything else: it is stored, and shown with the backend each time"""


def bounded(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a server tells, as a row and a page can hold it: long texts cut, vast values left out, no U+0000 (PostgreSQL has none)."""
    kept: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, str):
            kept[key] = _UNSHOWN.sub("\ufffd", value[:MAX_TEXT])
        elif not isinstance(value, list | dict):
            kept[key] = value
        elif len(text := orjson.dumps(value)) <= MAX_VALUE:
            kept[key] = orjson.loads(text.replace(rb"\u0000", rb"\ufffd"))
    return kept


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
