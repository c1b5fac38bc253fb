"""Which of SGLang's other flags an operator may pass, and why some are refused whatever the reason.

The typed fields of `LaunchSpec` cover what matters; SGLang has some 500 more. A flag reaches the command line only if it
stands in `ALLOWED`, with the kind of value it takes. `REFUSED` names the ones that people do ask for and that run code,
write or delete files, open a port, or change answers behind a run's back, each with its reason.
"""

import re
from collections.abc import Mapping, Sequence

FlagValue = bool | int | float | str | list[int]

_SWITCHES = (
    "disable_chunked_prefix_cache disable_cuda_graph disable_cuda_graph_padding disable_custom_all_reduce "
    "disable_decode_cuda_graph disable_flashinfer_autotune disable_overlap_schedule disable_prefill_cuda_graph "
    "disable_radix_cache disable_shared_experts_fusion enable_cache_report enable_deterministic_inference enable_dp_attention "
    "enable_dp_lm_head enable_eplb enable_flashinfer_allreduce_fusion enable_fp32_lm_head enable_hierarchical_cache "
    "enable_memory_saver enable_metrics enable_mixed_chunk enable_mscclpp enable_multi_layer_eagle enable_nccl_nvls "
    "enable_p2p_check enable_priority_scheduling enable_single_batch_overlap enable_symm_mem enable_torch_compile "
    "enable_two_batch_overlap skip_tokenizer_init sleep_on_idle speculative_adaptive triton_attention_reduce_in_fp32 "
    "weight_loader_disable_mmap weight_loader_drop_cache_after_load weight_loader_prefetch_checkpoints"
)
_WHOLE_NUMBERS = (
    "attn_cp_size base_gpu_id cpu_offload_gb cuda_graph_max_bs_decode cuda_graph_max_bs_prefill dcp_size "
    "decode_log_interval detokenizer_worker_num dist_timeout ep_num_redundant_experts ep_size gpu_id_step hicache_size "
    "load_snapshot_publish_interval max_mamba_cache_size max_prefill_tokens max_queued_requests moe_dense_tp_size moe_dp_size "
    "num_continuous_decode_steps page_size pp_max_micro_batch_size pp_size speculative_draft_window_size "
    "speculative_eagle_topk speculative_num_draft_tokens speculative_num_steps torch_compile_max_bs "
    "triton_attention_num_kv_splits weight_loader_prefetch_num_threads"
)
_NUMBERS = (
    "hicache_ratio mamba_full_memory_ratio schedule_conservativeness soft_watchdog_timeout "
    "speculative_accept_threshold_acc speculative_accept_threshold_single swa_full_tokens_ratio watchdog_timeout"
)
_WORDS = (
    "cuda_graph_backend_decode cuda_graph_backend_prefill decode_attention_backend deepep_mode eplb_algorithm "
    "fp4_gemm_backend fp8_gemm_backend grammar_backend hicache_io_backend hicache_mem_layout hicache_write_policy "
    "linear_attn_backend load_balance_method load_format log_level log_level_http mamba_backend mamba_ssm_dtype "
    "mm_attention_backend moe_a2a_backend moe_runner_backend prefill_attention_backend radix_eviction_policy revision "
    "sampling_backend schedule_policy speculative_algorithm speculative_draft_attention_backend "
    "speculative_draft_model_quantization speculative_draft_model_revision speculative_moe_runner_backend "
    "startup_weight_load_mode tokenizer_mode"
)
_LISTS = "cuda_graph_bs_decode cuda_graph_bs_prefill"
_PATHS = "speculative_draft_model_path"

ALLOWED: Mapping[str, str] = {
    name: kind
    for kind, names in (
        ("switch", _SWITCHES),
        ("int", _WHOLE_NUMBERS),
        ("float", _NUMBERS),
        ("word", _WORDS),
        ("ints", _LISTS),
        ("model", _PATHS),
    )
    for name in names.split()
}
"""Flag (snake_case) → kind: switch, int, float, word, ints (a list), model (a model path, held to the model roots)."""

_OURS = "Draftmill sets it itself, and finds its server again by it"
_KEYS = "Draftmill makes the key, a new one for each start, and keeps it out of the command line"
_CODE = "it runs code that the flag names"
_WRITES = "it writes files where the flag says"
_OPENS = "it opens a port or a connection that Draftmill does not guard"

REFUSED: Mapping[str, str] = {
    "host": _OURS,
    "port": _OURS,
    "nccl_port": _OURS,
    "weight_version": _OURS,
    "config": _OURS,
    "api_key": _KEYS,
    "admin_api_key": _KEYS,
    "delete_ckpt_after_loading": "it deletes the checkpoint from the disk once it is loaded",
    "custom_weight_loader": _CODE,
    "forward_hooks": _CODE,
    "enable_custom_logit_processor": "requests could then carry code that the server runs",
    "tool_server": "it lets the server call tools on its own",
    "sidecar": _CODE,
    "model_loader_extra_config": _CODE,
    "crash_dump_folder": "it writes prompts and answers to files where the flag says",
    "download_dir": _WRITES,
    "file_storage_path": _WRITES,
    "export_metrics_to_file": _WRITES,
    "export_metrics_to_file_dir": _WRITES,
    "debug_tensor_dump_output_folder": _WRITES,
    "modelopt_checkpoint_save_path": _WRITES,
    "modelopt_export_path": _WRITES,
    "spec_trace_dir": _WRITES,
    "hicache_storage_backend": _WRITES,
    "log_requests": "it writes every prompt and answer into the log and slows the server down",
    "gated_launch_port": _OPENS,
    "grpc_port": _OPENS,
    "enable_trace": _OPENS,
    "kv_events_config": _OPENS,
    "ssl_keyfile": "the server listens on loopback; a proxy in front of Draftmill speaks TLS",
    "enable_http2": "it swaps the HTTP server for another one, whose answers and log lines Draftmill does not know",
    "tokenizer_worker_num": "more than one tokenizer worker cannot be used with a key (SGLang asserts and dies)",
    "skip_server_warmup": "the warm-up is part of what proves that the server can answer",
    "allow_auto_truncate": "it cuts prompts silently: the stored ids would not be what the model saw",
    "preferred_sampling_params": "it changes the sampling of runs behind their frozen settings",
    "trust_remote_code": "set the launch field trust_remote_code, which the operator must have allowed (DRAFTMILL_ALLOW_REMOTE_CODE)",
}

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")


def flag_name(key: str) -> str:
    """`--Some-Flag` or `some_flag` → `some_flag`."""
    return key.strip().removeprefix("--").replace("-", "_").lower()


def check_flags(flags: Mapping[str, FlagValue], typed: Sequence[str]) -> dict[str, FlagValue]:
    """The flags under their canonical names.

    Args:
        flags: name (with or without dashes) → value.
        typed: the names that `LaunchSpec` has as fields of its own.

    Raises:
        ValueError: a flag is refused, unknown to the list, given twice, or its value is of the wrong kind; the sentence
            names the flag and the cure.
    """
    checked: dict[str, FlagValue] = {}
    for key, value in flags.items():
        name = flag_name(key)
        if name in REFUSED:
            raise ValueError(f"flag {name} is not passed on: {REFUSED[name]}")
        if name in typed:
            raise ValueError(f"flag {name} is a launch field of its own: set launch.{name} instead of extra_flags")
        if name not in ALLOWED:
            raise ValueError(
                f"flag {name} is not in the list of flags Draftmill passes on (ALLOWED in inference/backends/launch/flags.py)"
            )
        if name in checked:
            raise ValueError(f"flag {name} is given twice")
        if not _fits(ALLOWED[name], value):
            raise ValueError(f"flag {name} takes {_KIND_WORDS[ALLOWED[name]]}, not {value!r}")
        checked[name] = value
    return checked


def flag_argv(name: str, value: FlagValue) -> list[str]:
    """The flag as argv: full name with dashes, then its value; a switch that is off is left out."""
    option = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [option] if value else []
    if isinstance(value, list):
        return [option, *map(str, value)]
    return [option, str(value)]


_KIND_WORDS = {
    "switch": "true or false",
    "int": "a whole number",
    "float": "a number",
    "word": "one plain word (letters, digits, . _ + -)",
    "ints": "a list of whole numbers",
    "model": "a model path or hub id",
}


def _fits(kind: str, value: FlagValue) -> bool:
    if isinstance(value, bool) or kind == "switch":
        return isinstance(value, bool) and kind == "switch"
    match kind:
        case "int":
            return isinstance(value, int)
        case "float":
            return isinstance(value, int | float)
        case "ints":
            return isinstance(value, list) and bool(value) and all(type(item) is int for item in value)
        case "model":
            return isinstance(value, str) and bool(value) and not value.startswith("-")
        case _:
            return isinstance(value, str) and _WORD.fullmatch(value) is not None
