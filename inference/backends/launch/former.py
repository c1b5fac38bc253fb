"""Launches as they were written before some flags became fields of their own: read, and brought up to date.

Stored backends and people's scripts keep working: what stood in `extra_flags` moves to the field of that name.
"""

from collections.abc import Mapping
from typing import Any, Final

from inference.backends.launch.flags import flag_name

MOVED: Final = frozenset(
    {
        *("attn_dp_size", "cuda_graph_max_bs_decode", "disable_cuda_graph", "enable_deterministic_inference"),
        *("enable_metrics", "ep_size", "load_format", "max_queued_requests", "pp_size", "speculative_algorithm"),
        *("speculative_draft_model_path", "speculative_eagle_topk", "speculative_num_draft_tokens"),
        *("speculative_num_steps", "weight_loader_disable_mmap", "weight_loader_prefetch_checkpoints"),
    }
)
"""Flags that were passed by `extra_flags` and are fields now"""


def brought_up(launch: Mapping[str, Any]) -> dict[str, Any]:
    """The launch with moved flags in their fields; `dp_size` with `enable_dp_attention` becomes `attn_dp_size`, as in SGLang.

    Raises:
        ValueError: a moved flag and its field are both given, and differ.
    """
    new = dict(launch)
    flags = new.get("extra_flags")
    if not isinstance(flags, Mapping):
        return new
    kept: dict[Any, Any] = {}
    attention_dp = False
    for key, value in flags.items():
        name = flag_name(str(key))
        if name == "enable_dp_attention":
            attention_dp = bool(value)
        elif name in MOVED:
            if new.get(name) is not None and new[name] != value:
                raise ValueError(f"{name} is given twice: in extra_flags and as launch.{name}")
            new[name] = value
        else:
            kept[key] = value
    new["extra_flags"] = kept
    if attention_dp and (new.get("attn_dp_size") or 1) == 1:
        new["attn_dp_size"], new["dp_size"] = new.get("dp_size"), None
    return new
