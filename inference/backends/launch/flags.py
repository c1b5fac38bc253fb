"""SGLang's other flags: which are passed on, which only where the operator allows it, and which never, each with its reason.

The typed fields of `LaunchSpec` cover what matters; SGLang has some 500 more. A flag reaches the command line only if it
stands in `ALLOWED` or `GUARDED`, with the kind of value it takes. `GUARDED` ones run code, write files, open a connection or
show prompts: the setting `allowed_flags` must name them. `NEVER` ones would make Draftmill lose its server or its data.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from db.errors import Invalid

FlagValue = bool | int | float | str | list[int] | list[str]

_SWITCHES = (
    "disable_chunked_prefix_cache disable_cuda_graph_padding disable_custom_all_reduce disable_decode_cuda_graph "
    "disable_flashinfer_autotune disable_hybrid_swa_memory disable_overlap_schedule disable_prefill_cuda_graph "
    "disable_radix_cache disable_shared_experts_fusion enable_cache_report enable_dp_lm_head enable_eplb "
    "enable_flashinfer_allreduce_fusion enable_fp32_lm_head enable_hierarchical_cache enable_memory_saver enable_mixed_chunk "
    "enable_mscclpp enable_multi_layer_eagle enable_nccl_nvls enable_p2p_check enable_prefill_cp enable_priority_scheduling "
    "enable_single_batch_overlap enable_symm_mem enable_torch_compile enable_two_batch_overlap skip_tokenizer_init "
    "sleep_on_idle speculative_adaptive speculative_use_block_verification speculative_use_rejection_sampling "
    "triton_attention_reduce_in_fp32 weight_loader_drop_cache_after_load"
)
_WHOLE_NUMBERS = (
    "attn_cp_size base_gpu_id cpu_offload_gb cuda_graph_max_bs_prefill dcp_size decode_log_interval detokenizer_worker_num "
    "dist_timeout ep_num_redundant_experts gpu_id_step hicache_size load_snapshot_publish_interval max_mamba_cache_size "
    "max_prefill_tokens moe_dense_tp_size moe_dp_size num_continuous_decode_steps page_size pp_max_micro_batch_size "
    "prefill_max_requests speculative_dflash_block_size speculative_draft_window_size speculative_dspark_block_size "
    "speculative_ngram_max_bfs_breadth speculative_ngram_max_trie_depth torch_compile_max_bs triton_attention_num_kv_splits "
    "weight_loader_prefetch_num_threads"
)
_NUMBERS = (
    "hicache_ratio mamba_full_memory_ratio schedule_conservativeness soft_watchdog_timeout "
    "speculative_accept_threshold_acc speculative_accept_threshold_single swa_full_tokens_ratio watchdog_timeout"
)
_WORDS = (
    "cp_strategy cuda_graph_backend_decode cuda_graph_backend_prefill decode_attention_backend deepep_mode eplb_algorithm "
    "fp4_gemm_backend fp8_gemm_backend grammar_backend hicache_io_backend hicache_mem_layout hicache_write_policy "
    "linear_attn_backend load_balance_method log_level log_level_http mamba_backend mamba_ssm_dtype mm_attention_backend "
    "moe_a2a_backend moe_runner_backend prefill_attention_backend radix_eviction_policy revision sampling_backend "
    "schedule_policy speculative_attention_mode speculative_draft_attention_backend speculative_draft_kv_cache_dtype "
    "speculative_draft_load_format speculative_draft_model_quantization speculative_draft_model_revision "
    "speculative_moe_a2a_backend speculative_moe_runner_backend startup_weight_load_mode tokenizer_backend tokenizer_mode"
)
_LISTS = "cuda_graph_bs_decode cuda_graph_bs_prefill numa_node"
_TEXTS = "json_model_override_args"

ALLOWED: Mapping[str, str] = {
    name: kind
    for kind, names in (
        ("switch", _SWITCHES),
        ("int", _WHOLE_NUMBERS),
        ("float", _NUMBERS),
        ("word", _WORDS),
        ("ints", _LISTS),
        ("text", _TEXTS),
    )
    for name in names.split()
}
"""Flag (snake_case) → kind of its value: a key of `KIND_WORDS`"""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A flag that the operator must allow by name: the kind of its value, and what it does."""

    kind: str
    reason: str


_CODE = "it runs code that the flag names"
_WRITES = "it writes files where the flag says"
_OPENS = "it opens a port or a connection that Draftmill does not guard"
_SHOWS = "it writes every prompt and answer into the log, and slows the server down"

GUARDED: Mapping[str, Guarded] = {
    name: Guarded(kind, reason)
    for reason, kind, names in (
        (_CODE, "texts", "custom_weight_loader"),
        (_CODE, "text", "forward_hooks model_loader_extra_config sidecar sidecar_args"),
        ("requests could then carry code that the server runs", "switch", "enable_custom_logit_processor"),
        ("it lets the server call tools on its own", "text", "tool_server"),
        ("it writes prompts and answers to files where the flag says", "text", "crash_dump_folder"),
        (_WRITES, "switch", "export_metrics_to_file"),
        (_WRITES, "text", "debug_tensor_dump_output_folder download_dir export_metrics_to_file_dir file_storage_path"),
        (_WRITES, "text", "modelopt_checkpoint_save_path modelopt_export_path spec_trace_dir"),
        (_WRITES, "word", "hicache_storage_backend"),
        (_WRITES, "text", "hicache_storage_backend_extra_config"),
        (_SHOWS, "switch", "log_requests"),
        (_SHOWS, "int", "log_requests_level"),
        (_OPENS, "int", "gated_launch_port grpc_port"),
        (_OPENS, "switch", "enable_trace"),
        (_OPENS, "text", "kv_events_config otlp_traces_endpoint"),
    )
    for name in names.split()
}

_OURS = "Draftmill sets it itself, and finds its server again by it"
_KEYS = "Draftmill makes the key, a new one for each start, and keeps it out of the command line"
_TLS = "the server listens on loopback; a proxy in front of Draftmill speaks TLS"
_HALF = "it makes the server a part of another one, which cannot answer by itself"
_FRONT = "it swaps the HTTP server for another one, whose answers and log lines Draftmill does not know"

NEVER: Mapping[str, str] = {
    name: reason
    for reason, names in (
        (_OURS, "host port nccl_port weight_version config"),
        (_KEYS, "api_key admin_api_key"),
        (_TLS, "ssl_keyfile ssl_certfile ssl_ca_certs ssl_keyfile_password enable_ssl_refresh"),
        (_FRONT, "enable_http2 grpc_mode smg_grpc_mode use_ray fastapi_root_path"),
        (_HALF, "disaggregation_mode encoder_only language_only is_embedding"),
        ("it deletes the checkpoint from the disk once it is loaded", "delete_ckpt_after_loading"),
        ("more than one tokenizer worker cannot be used with a key (SGLang asserts and dies)", "tokenizer_worker_num"),
        ("the warm-up is part of what proves that the server can answer", "skip_server_warmup"),
        ("it cuts prompts silently: the stored ids would not be what the model saw", "allow_auto_truncate"),
        ("it changes the sampling of runs behind their frozen settings", "preferred_sampling_params enable_watermark"),
        (
            "set the launch field trust_remote_code, which the operator must have allowed (DRAFTMILL_ALLOW_REMOTE_CODE)",
            "trust_remote_code",
        ),
    )
    for name in names.split()
}

KIND_WORDS: Mapping[str, str] = {
    "switch": "true or false",
    "int": "a whole number of at most 64 bits",
    "float": "a number",
    "word": "one plain word (letters, digits, . _ + -)",
    "text": "a text",
    "ints": "a list of whole numbers of at most 64 bits",
    "texts": "a list of texts",
}

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")
_MOST = 2000


def flag_name(key: str) -> str:
    """`--Some-Flag` or `some_flag` → `some_flag`."""
    return key.strip().removeprefix("--").replace("-", "_").lower()


def kind_of(name: str) -> str | None:
    """The kind of value that a flag takes; None where it is not passed on."""
    return ALLOWED.get(name) or (GUARDED[name].kind if name in GUARDED else None)


def check_flags(flags: Mapping[str, FlagValue], typed: Sequence[str]) -> dict[str, FlagValue]:
    """The flags under their canonical names. Whether the operator allows the guarded ones is for `check_guarded` to say.

    Args:
        flags: name (with or without dashes) → value.
        typed: the names that `LaunchSpec` has as fields of its own.

    Raises:
        ValueError: a flag is never passed on, unknown to the lists, given twice, or its value is of the wrong kind; the
            sentence names the flag and the cure.
    """
    checked: dict[str, FlagValue] = {}
    for key, value in flags.items():
        name = flag_name(key)
        if name in NEVER:
            raise ValueError(f"flag {name} is not passed on: {NEVER[name]}")
        if name in typed:
            raise ValueError(f"flag {name} is a launch field of its own: set launch.{name} instead of extra_flags")
        kind = kind_of(name)
        if kind is None:
            raise ValueError(
                f"flag {name:.80} is not in the list of flags that Draftmill passes on (GET /api/v1/launch-fields has it)"
            )
        if name in checked:
            raise ValueError(f"flag {name} is given twice")
        if not _fits(kind, value):
            raise ValueError(f"flag {name} takes {KIND_WORDS[kind]}, not {value!r:.80}")
        checked[name] = value
    return checked


def check_guarded(names: Collection[str], allowed: Collection[str], field: str = "launch.extra_flags") -> None:
    """Hold the guarded flags among `names` to those that the operator allows.

    Raises:
        Invalid: `flag_not_allowed`.
    """
    permitted = set(map(flag_name, allowed))
    for name in sorted(names):
        if name in GUARDED and name not in permitted:
            raise Invalid(
                "flag_not_allowed",
                f"flag {name} needs the operator's leave, since {GUARDED[name].reason}: "
                f"name it in the setting DRAFTMILL_ALLOWED_FLAGS.",
                field=field,
            )


def flag_argv(name: str, value: FlagValue) -> list[str]:
    """The flag as argv: full name with dashes, then its value; a switch that is off is left out."""
    option = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, list):
        return [option, *map(str, value)]
    return [option, str(value)]


def _fits(kind: str, value: FlagValue) -> bool:
    if isinstance(value, bool) or kind == "switch":
        return isinstance(value, bool) and kind == "switch"
    if isinstance(value, list):
        checks = {
            "ints": lambda item: type(item) is int and _whole(item),
            "texts": lambda item: isinstance(item, str) and _plain(item),
        }
        return kind in checks and bool(value) and all(map(checks[kind], value))
    if isinstance(value, str):
        return _plain(value) if kind == "text" else kind == "word" and _WORD.fullmatch(value) is not None
    if isinstance(value, float):
        return kind == "float" and math.isfinite(value)
    return kind in {"int", "float"} and _whole(value)


def _whole(value: int) -> bool:
    """Whether it fits where SGLang, the database and readers of JSON keep whole numbers."""
    return -(2**63) <= value < 2**63


def _plain(value: str) -> bool:
    """What argparse takes for a value, and a log line can hold: no leading dash, no control character."""
    return 0 < len(value) <= _MOST and not value.startswith("-") and value.isprintable()
