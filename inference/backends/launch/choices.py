"""The closed lists of SGLang 0.5.23: what its own argument parser accepts, so that a misspelt word costs no start."""

from collections.abc import Callable
from typing import Final

QUANTIZATIONS: Final = (
    *("awq", "fp8", "mxfp8", "gptq", "gptq_marlin", "awq_marlin", "bitsandbytes", "gguf", "modelopt", "modelopt_fp8"),
    *("modelopt_fp4", "nvfp4_online", "modelopt_mixed", "petit_nvfp4", "w8a8_int8", "w8a8_fp8", "moe_wna16", "w4afp8"),
    *("mxfp4", "auto-round", "auto-round-int8", "compressed-tensors", "modelslim", "mxfp_w4a8", "quark"),
    *("quark_int4fp8_moe", "quark_mxfp4", "mlx_q4", "mlx_q8", "unquant", "humming"),
)
KV_CACHE_DTYPES: Final = (*("auto", "fp8_e5m2", "fp8_e4m3", "mxfp8", "bf16", "bfloat16", "nvfp4", "fp4_mx_block16"),)
ATTENTION_BACKENDS: Final = (
    *(
        "triton",
        "torch_native",
        "flex_attention",
        "dsa",
        "nsa",
        "qsa",
        "dsv4",
        "compressed",
        "fa3",
        "fa4",
        "flashinfer",
    ),
    *("llada2_cfg_flashinfer", "flashmla", "trtllm_mla", "cutedsl_mla", "tokenspeed_mla", "trtllm_mha", "hpc_ops"),
    *("minicpm_flashattn", "minicpm_flashinfer", "aiter", "wave", "intel_amx", "ascend", "intel_xpu"),
)
DETERMINISTIC_BACKENDS: Final = ("ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton")
"""The attention backends with which SGLang accepts deterministic inference"""

LOAD_FORMATS: Final = (
    *("auto", "pt", "safetensors", "instanttensor", "npcache", "dummy", "sharded_state", "presharded", "gguf"),
    *("expert_pack", "bitsandbytes", "mistral", "layered", "flash_rl", "remote", "remote_instance", "fastsafetensors"),
    *("private", "runai_streamer"),
)
UNGUARDED_FORMATS: Final = frozenset(LOAD_FORMATS) - {"npcache", "presharded", "remote", "remote_instance", "private"}
"""Those that only read the model's own files; the others write beside them, connect elsewhere, or run a plug-in"""

SPECULATIVE_ALGORITHMS: Final = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK")
"""SGLang's own but for UNO, which drafts with a LoRA checkpoint instead of a model"""

REASONING_PARSERS: Final = (
    *("auto", "apertus2509", "beam", "cohere_command4", "deepseek-r1", "deepseek-v3", "deepseek-v4", "deepseek-v41"),
    *("dots", "gemma4", "gigachat35", "glm45", "gpt-oss", "granite_thinking_parser", "hunyuan", "inkling", "interns1"),
    *("iquest_q1", "k2_horizon", "kimi", "kimi_k2", "kimi_k3", "ling3", "mimo", "minimax", "minimax-append-think"),
    *("minimax-m3", "mistral", "muse", "nanbeige", "nemotron_3", "poolside_v1", "qwen3", "qwen3-thinking"),
    *("response_template", "step3", "step3p5"),
)
TOOL_CALL_PARSERS: Final = (
    *("auto", "apertus2509", "beam", "cohere_command4", "deepseekv3", "deepseekv31", "deepseekv32", "deepseekv4"),
    *("deepseekv41", "dots", "gemma4", "gigachat3", "gigachat35", "glm", "glm45", "glm47", "gpt-oss", "hermes"),
    *("hunyuan", "inkling", "interns1", "iquest_q1", "k2_horizon", "kimi_k2", "kimi_k3", "lfm2", "ling3", "llama3"),
    *("mimo", "minicpm5", "minimax-m2", "minimax-m3", "mistral", "muse", "nanbeige", "poolside_v1", "pythonic", "qwen"),
    *("qwen25", "qwen3_coder", "response_template", "spark25", "step3", "step3p5", "trinity"),
)


def one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A check that a word is in the list; its sentence names the nearest ones, not all.

    Raises:
        ValueError: from the check, where it is not.
    """

    def check(value: str) -> str:
        if value not in choices:
            near = [word for word in choices if word[:2].lower() == value[:2].lower()][:8]
            hint = f"; did you mean {' or '.join(near)}?" if near else f": it knows {', '.join(choices[:12])} …"
            raise ValueError(f"SGLang 0.5.23 has no {value!r} here{hint}")
        return value

    return check
