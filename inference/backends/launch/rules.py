"""What the settings of one launch forbid each other. Each rule is SGLang's own; here it costs a sentence, there a start.

Only rules that hold whatever the model and the GPU are: the rest is SGLang's to say, and its log is read for it.
"""

from typing import TYPE_CHECKING

from inference.backends.launch.choices import DETERMINISTIC_BACKENDS
from inference.backends.launch.meeting import meeting_ports

if TYPE_CHECKING:
    from inference.backends.launch.spec import LaunchSpec

Faults = list[tuple[str, str]]
"""(field, sentence) of each broken rule"""

_WITH_STEPS = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"})
"""Algorithms that draft in steps, of so many tokens each"""
_CUDA_ALONE = frozenset({"DFLASH", "DSPARK"})


def faults(spec: "LaunchSpec") -> Faults:
    """Every rule that the spec breaks, under the field to change."""
    return [*_nodes(spec), *_widths(spec), *_devices(spec), *_kernels(spec), *_speculation(spec)]


def _nodes(spec: "LaunchSpec") -> Faults:
    found: Faults = []
    nodes = spec.nnodes or 1
    if nodes > 1 and spec.node_rank is None:
        found.append(("node_rank", f"nnodes above 1 needs node_rank: which of the {nodes} this is, from 0"))
    if nodes > 1 and spec.dist_init_addr is None:
        found.append(
            ("dist_init_addr", "nnodes above 1 needs dist_init_addr: host:port of node 0, the same on every node")
        )
    if spec.node_rank is not None and spec.node_rank >= nodes:
        found.append(("node_rank", f"node_rank {spec.node_rank} must be below nnodes ({nodes})"))
    if spec.dist_init_addr is not None:
        try:
            meeting_ports(spec.dist_init_addr, inner=spec.attention_dp)
        except ValueError as error:
            found.append(("dist_init_addr", str(error)))
    if nodes > 1 and (spec.dp_size or 1) > 1:
        found.append(("dp_size", "dp_size above 1 works on one node only: set nnodes to 1, or use attn_dp_size"))
    return found


def _widths(spec: "LaunchSpec") -> Faults:
    found: Faults = []
    tp, pp, nodes = spec.tp_size or 1, spec.pp_size or 1, spec.nnodes or 1
    if tp * pp % nodes:
        found.append(("nnodes", f"tp_size × pp_size ({tp * pp}) must divide by nnodes ({nodes})"))
    for name, what in (("attn_dp_size", "attention groups"), ("ep_size", "expert groups")):
        width = getattr(spec, name) or 1
        if tp % width:
            found.append((name, f"{name} {width} must divide tp_size ({tp}): the {what} share its GPUs"))
    if (spec.dp_size or 1) > 1 and spec.attention_dp:
        found.append(("dp_size", "dp_size (whole replicas) and attn_dp_size exclude each other: leave one at 1"))
    page = spec.extra_flags.get("page_size")
    chunk = spec.chunked_prefill_size or 0
    if isinstance(page, int) and page > 0 and chunk > 0 and chunk % page:
        found.append(("chunked_prefill_size", f"chunked_prefill_size {chunk} must divide by page_size ({page})"))
    return found


def _devices(spec: "LaunchSpec") -> Faults:
    if not spec.gpus:
        return []
    if spec.device not in {None, "cuda"}:
        return [("gpus", f"gpus are NVIDIA GPUs, and device is {spec.device}: leave device empty, or gpus")]
    if len(set(spec.gpus)) < len(spec.gpus):
        return [("gpus", "gpus names one GPU twice")]
    needed = (spec.tp_size or 1) * (spec.pp_size or 1) * (spec.dp_size or 1) // (spec.nnodes or 1)
    if len(spec.gpus) < needed:
        return [("gpus", f"tp_size × pp_size × dp_size needs {needed} GPUs on this node, gpus names {len(spec.gpus)}")]
    return []


def _kernels(spec: "LaunchSpec") -> Faults:
    found: Faults = []
    if spec.disable_cuda_graph and spec.cuda_graph_max_bs_decode is not None:
        found.append(
            ("cuda_graph_max_bs_decode", "without CUDA graphs there is no largest batch to capture: set one of the two")
        )
    if spec.enable_deterministic_inference:
        if spec.device == "cpu":
            found.append(("enable_deterministic_inference", "SGLang has no deterministic attention on the CPU"))
        elif spec.attention_backend not in {None, *DETERMINISTIC_BACKENDS}:
            known = ", ".join(DETERMINISTIC_BACKENDS)
            found.append(
                ("attention_backend", f"enable_deterministic_inference works with {known}, or with none named")
            )
    if spec.extra_flags.get("disable_cuda_graph_padding") and spec.extra_flags.get("enable_torch_compile"):
        found.append(("extra_flags", "disable_cuda_graph_padding and enable_torch_compile exclude each other"))
    return found


def _speculation(spec: "LaunchSpec") -> Faults:
    algorithm = spec.speculative_algorithm
    if algorithm is None:
        given = ("draft_model_path", "num_steps", "eagle_topk", "num_draft_tokens")
        names = [f"speculative_{name}" for name in given]
        return [(name, f"{name} needs speculative_algorithm") for name in names if getattr(spec, name) is not None]
    found: Faults = []
    if (spec.pp_size or 1) > 1:
        found.append(("pp_size", "pipeline parallelism does not go with speculative decoding: leave pp_size at 1"))
    if algorithm in {"STANDALONE", "NGRAM"} and spec.attention_dp:
        found.append(("attn_dp_size", f"{algorithm} does not go with attention data parallelism"))
    if algorithm in _CUDA_ALONE and spec.device in {"cpu", "hpu", "musa"}:
        found.append(("speculative_algorithm", f"{algorithm} does not run on {spec.device}"))
    if algorithm in {"STANDALONE", "DFLASH"} and spec.speculative_draft_model_path is None:
        found.append(("speculative_draft_model_path", f"{algorithm} needs a draft model"))
    if algorithm == "NGRAM" and spec.speculative_draft_model_path is not None:
        found.append(("speculative_draft_model_path", "NGRAM drafts from the text itself and has no draft model"))
    if algorithm in _WITH_STEPS and not spec.extra_flags.get("speculative_adaptive"):
        found += _steps(spec)
    return found


def _steps(spec: "LaunchSpec") -> Faults:
    """Three numbers of which SGLang takes all or none; with one token a step, the third follows from the first."""
    steps, topk, tokens = spec.speculative_num_steps, spec.speculative_eagle_topk, spec.speculative_num_draft_tokens
    if steps is None:
        names = {"speculative_eagle_topk": topk, "speculative_num_draft_tokens": tokens}
        return [(name, f"{name} needs speculative_num_steps") for name, value in names.items() if value is not None]
    if topk is None:
        return [
            (
                "speculative_eagle_topk",
                "speculative_num_steps needs speculative_eagle_topk: tokens drafted in each step",
            )
        ]
    if topk == 1 and tokens not in {None, steps + 1}:
        return [
            (
                "speculative_num_draft_tokens",
                f"with speculative_eagle_topk 1 it is speculative_num_steps + 1 = {steps + 1}",
            )
        ]
    if topk > 1 and tokens is None:
        return [("speculative_num_draft_tokens", "speculative_eagle_topk above 1 needs speculative_num_draft_tokens")]
    return []
