"""How each field of a launch is put to people: its name, what SGLang does where it is left out, and what it is for.

The form, `GET /api/v1/launch-fields` and the schema of REST are made from this table; a field without a line in it fails a test.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inference.backends.launch import choices

Kind = Literal["path", "text", "number", "amount", "decimal", "choice", "switch", "gpus", "flags"]
"""How it is filled in; `amount` is a whole number that may be written as 32k or 32Ki"""


@dataclass(frozen=True, slots=True)
class FieldAbout:
    """One field as people see it."""

    name: str
    group: str
    label: str
    kind: Kind
    default: str
    """What happens where it is left out, in words"""
    about: str
    """One sentence"""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that belong together; `open` where people see them at once."""

    key: str
    title: str
    about: str = ""
    open: bool = False


GROUPS = (
    Group("model", "Model", open=True),
    Group(
        "gpus",
        "GPUs and parallelism",
        "Tensor parallel × pipeline parallel × replicas is the number of GPUs; the other two divide the tensor-parallel ones.",
        open=True,
    ),
    Group("memory", "Memory and batching", open=True),
    Group("weights", "Data types and weights"),
    Group("kernels", "Kernels and CUDA graphs"),
    Group(
        "speculation",
        "Speculative decoding",
        "A draft proposes tokens, the model checks them: faster, and the same answers in distribution.",
    ),
    Group("nodes", "Several nodes", "One server over several machines: each machine's Draftmill starts its part."),
    Group("answers", "Parsers and reproducibility"),
    Group("life", "Start, stop and figures"),
    Group("more", "Further flags"),
)

_ROWS: tuple[tuple[str, str, str, Kind, str, str, tuple[str, ...]], ...] = (
    ("model", "model_path", "Model", "path", "", "Checkpoint folder under a model root, or a hub id.", ()),
    ("model", "tokenizer_path", "Tokenizer", "path", "the model's own", "Where it does not lie with the model.", ()),
    ("model", "served_model_name", "Served name", "text", "the model path", "What the OpenAI routes call it; no colon.", ()),
    ("model", "context_length", "Context length, tokens", "amount", "the model's own",
     "Prompt and answer together, not above the model's own; 32k is 32,000 and 32Ki is 32,768.", ()),
    ("model", "trust_remote_code", "Trust remote code", "switch", "off",
     "Runs Python code that the checkpoint brings; only where the operator allows it.", ()),
    ("gpus", "device", "Device", "choice", "SGLang finds it", "cpu sets up the CPU engine, with what it needs.",
     ("cuda", "cpu", "xpu", "hpu", "npu", "musa")),
    ("gpus", "gpus", "GPUs", "gpus", "all of this machine", "By UUID, so that a new card does not shift them; only these are visible to the server.", ()),
    ("gpus", "tp_size", "Tensor parallel", "number", "1", "GPUs that share every layer.", ()),
    ("gpus", "pp_size", "Pipeline parallel", "number", "1", "Stages of layers, one after the other; for several nodes with a slow network.", ()),
    ("gpus", "dp_size", "Replicas", "number", "1", "Whole copies behind one port, on one node; each takes its own GPUs.", ()),
    ("gpus", "attn_dp_size", "Attention data parallel", "number", "1",
     "Groups inside the tensor-parallel GPUs that attend to different requests; saves KV cache on MLA models.", ()),
    ("gpus", "ep_size", "Expert parallel", "number", "1", "Groups inside the tensor-parallel GPUs that hold different experts.", ()),
    ("memory", "mem_fraction_static", "Memory fraction", "decimal", "what is left after a reserve",
     "Share of each GPU's memory for weights and KV cache together, 0 to 1: lower it after running out of memory, raise it for more requests.", ()),
    ("memory", "max_total_tokens", "KV cache, tokens", "amount", "as memory allows (CPU: 20,000)", "An upper limit for the KV cache.", ()),
    ("memory", "kv_cache_dtype", "KV cache type", "choice", "auto, the model's", "fp8 halves the KV cache at some loss.", choices.KV_CACHE_DTYPES),
    ("memory", "max_running_requests", "Running requests", "number", "as memory allows, up to 4096 (48 with speculation)",
     "How many are generated at the same time, per replica.", ()),
    ("memory", "max_queued_requests", "Queued requests", "number", "unlimited", "Above it the server answers 503, and runs wait.", ()),
    ("memory", "chunked_prefill_size", "Chunked prefill, tokens", "number", "2048 to 16384, by GPU memory",
     "Longest piece of a prompt per step; -1 turns chunking off.", ()),
    ("weights", "dtype", "Data type", "choice", "auto, the checkpoint's", "Of weights and activations; CPU: float32 where the processor lacks bfloat16.",
     ("auto", "half", "float16", "bfloat16", "float", "float32")),
    ("weights", "quantization", "Quantization", "choice", "as the checkpoint says", "Needed only to quantise while loading, or where config.json does not name it.",
     choices.QUANTIZATIONS),
    ("weights", "load_format", "Load format", "choice", "auto: safetensors, else pt", "dummy fills in random weights, to try out a set-up.", choices.LOAD_FORMATS),
    ("weights", "weight_loader_disable_mmap", "Load without mmap", "switch", "off", "Often faster where the model lies on a network file system.", ()),
    ("weights", "weight_loader_prefetch_checkpoints", "Prefetch weights", "switch", "off",
     "Each rank reads its share of the files ahead into the page cache, for network file systems.", ()),
    ("kernels", "attention_backend", "Attention backend", "choice", "by GPU and model (CPU: torch_native)", "Which attention kernels run.",
     choices.ATTENTION_BACKENDS),
    ("kernels", "disable_cuda_graph", "No CUDA graphs", "switch", "off: graphs are captured", "Starts sooner and saves memory, decodes slower.", ()),
    ("kernels", "cuda_graph_max_bs_decode", "Largest graph batch", "number", "by GPU memory",
     "Decode batches up to this size run as CUDA graphs; smaller saves memory and start-up time.", ()),
    ("speculation", "speculative_algorithm", "Algorithm", "choice", "none", "How tokens are drafted; NEXTN uses the model's own extra layers.",
     choices.SPECULATIVE_ALGORITHMS),
    ("speculation", "speculative_draft_model_path", "Draft model", "path", "none, or the model's own layers",
     "Folder under a model root, or a hub id.", ()),
    ("speculation", "speculative_num_steps", "Steps", "number", "by model", "Draft steps per check; set together with the two beside it.", ()),
    ("speculation", "speculative_eagle_topk", "Tokens per step", "number", "by model", "Candidates kept in each draft step; 1 drafts a chain.", ()),
    ("speculation", "speculative_num_draft_tokens", "Draft tokens", "number", "by model", "Tokens checked at once; steps + 1 for a chain.", ()),
    ("nodes", "nnodes", "Nodes", "number", "1", "How many machines share the server; all other settings are the same on each.", ()),
    ("nodes", "node_rank", "This node", "number", "0", "0 answers requests; the others, 1 and up, work for it.", ()),
    ("nodes", "dist_init_addr", "Meeting address", "text", "none", "host:port of node 0, the same on every node; its port must be free there.", ()),
    ("answers", "reasoning_parser", "Reasoning parser", "choice", "none", "For the chat routes and the probe's comparison; runs read ids themselves.",
     choices.REASONING_PARSERS),
    ("answers", "tool_call_parser", "Tool-call parser", "choice", "none", "For the chat routes and the probe's comparison; runs read ids themselves.",
     choices.TOOL_CALL_PARSERS),
    ("answers", "random_seed", "Random seed", "number", "a new one each start", "Of the server; a request's own seed counts only with deterministic inference.", ()),
    ("answers", "enable_deterministic_inference", "Deterministic inference", "switch", "off",
     "Answers do not depend on what else is in the batch, and each request's seed counts; slower.", ()),
    ("life", "enable_metrics", "Prometheus metrics", "switch", "off",
     "Opens /metrics, without a key; the figures here come from /v1/loads, which needs none of it.", ()),
    ("life", "startup_limit_s", "Start-up limit, seconds", "decimal", "none: wait, and show how long",
     "Draftmill's: a start that takes longer is given up.", ()),
    ("life", "drain_limit_s", "Drain limit, seconds", "decimal", "30", "Draftmill's: how long a stop waits for requests in flight.", ()),
    ("more", "extra_flags", "Further flags", "flags", "none", "One flag a line, as --page-size 64, or a JSON object.", ()),
)  # fmt: skip

FIELDS: Mapping[str, FieldAbout] = {
    name: FieldAbout(name, group, label, kind, default, about, options)
    for group, name, label, kind, default, about, options in _ROWS
}


def described(schema: dict[str, Any]) -> None:
    """Hook for pydantic: put each field's sentence and default into the schema of REST."""
    for name, shape in schema.get("properties", {}).items():
        field = FIELDS[name]
        shape["description"] = field.about + (f" Left out: {field.default}." if field.default else "")
