"""What people ask for: one SGLang server, in SGLang's own flag names, typed and checked as far as can be without disk or process."""

import functools
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from inference.backends.launch.flags import FlagValue, check_flags

CPU_MAX_TOTAL_TOKENS = 20_000
"""Without a limit the CPU engine takes 0.7 of the machine's memory for its cache."""

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def is_hub_id(name: str) -> bool:
    """Whether it reads as `organisation/name` on a model hub (a path starts with `/`, `.` or `~`)."""
    return _HUB_ID.fullmatch(name) is not None and ".." not in name


class LaunchSpec(BaseModel):
    """How to start one SGLang server, in SGLang's own flag names. What is None is left to SGLang."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model_path: str = Field(
        min_length=1, max_length=500, description="Checkpoint folder under a model root, or a hub id."
    )
    tokenizer_path: str | None = Field(
        None, min_length=1, max_length=500, description="Where it is not the model's own."
    )
    served_model_name: str | None = Field(None, min_length=1, max_length=200, description="Name in the OpenAI routes.")
    device: Literal["cuda", "cpu", "xpu", "hpu", "npu", "musa"] | None = Field(
        None, description="None: SGLang picks. `cpu` sets up the CPU engine."
    )
    tp_size: int | None = Field(None, ge=1, le=1024, description="Tensor parallel size.")
    dp_size: int | None = Field(None, ge=1, le=1024, description="Full replicas behind one port; one node only.")
    attn_dp_size: int | None = Field(None, ge=1, le=1024, description="Attention data parallelism inside tp_size.")
    nnodes: int | None = Field(None, ge=1, le=1024, description="Nodes of one server; each node's app starts its part.")
    node_rank: int | None = Field(None, ge=0, le=1023)
    dist_init_addr: str | None = Field(None, max_length=255, description="host:port where the nodes meet.")
    context_length: int | None = Field(None, ge=1, description="Tokens; not above the model's own.")
    mem_fraction_static: float | None = Field(None, gt=0, lt=1, description="Share of GPU memory for weights and KV.")
    max_total_tokens: int | None = Field(None, ge=1, description="KV cache size in tokens (CPU: 20,000 where unset).")
    max_running_requests: int | None = Field(None, ge=1)
    chunked_prefill_size: int | None = Field(None, ge=-1, description="Tokens; -1 turns chunking off.")
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = Field(
        None, description="CPU: float32 where unset and the processor has no bfloat16 arithmetic."
    )
    kv_cache_dtype: str | None = Field(None, pattern=r"^[a-z0-9_]{1,40}$")
    quantization: str | None = Field(None, pattern=r"^[a-z0-9_-]{1,40}$")
    attention_backend: str | None = Field(
        None, pattern=r"^[a-z0-9_]{1,40}$", description="CPU: torch_native where unset."
    )
    reasoning_parser: str | None = Field(None, pattern=r"^[a-z0-9_-]{1,40}$")
    tool_call_parser: str | None = Field(None, pattern=r"^[a-z0-9_-]{1,40}$")
    random_seed: int | None = Field(None, ge=0)
    trust_remote_code: bool = Field(
        False, description="Runs the checkpoint's own Python; only where settings allow it."
    )
    extra_flags: dict[str, FlagValue] = Field(
        default_factory=dict, description="Others, from the allow-list of flags.py."
    )
    startup_limit_s: float | None = Field(
        None,
        gt=0,
        description="Ours, not SGLang's: give a start up after so many seconds. None: wait, and show how long.",
    )

    @field_validator("model_path", "tokenizer_path", "served_model_name", "dist_init_addr")
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is not None and (value.startswith("-") or any(ord(letter) < 32 for letter in value)):  # noqa: PLR2004
            raise ValueError("must not start with a dash nor hold control characters")
        return value

    @field_validator("served_model_name")
    @classmethod
    def _no_colon(cls, value: str | None) -> str | None:
        if value is not None and ":" in value:
            raise ValueError("SGLang refuses a served_model_name with a colon in it")
        return value

    @field_validator("extra_flags")
    @classmethod
    def _allowed(cls, value: dict[str, FlagValue]) -> dict[str, FlagValue]:
        return check_flags(value, tuple(cls.model_fields))

    @model_validator(mode="after")
    def _consistent(self) -> "LaunchSpec":
        nodes = self.nnodes or 1
        if nodes > 1 and (self.node_rank is None or self.dist_init_addr is None):
            raise ValueError("nnodes above 1 needs node_rank and dist_init_addr (host:port of node 0)")
        if self.node_rank is not None and self.node_rank >= nodes:
            raise ValueError(f"node_rank {self.node_rank} must be below nnodes ({nodes})")
        if nodes > 1 and (self.dp_size or 1) > 1:
            raise ValueError("dp_size above 1 works on one node only: set nnodes to 1, or dp_size to 1")
        return self

    @property
    def follower(self) -> bool:
        """Whether it is a node of a server that answers elsewhere: it serves no requests of its own."""
        return (self.node_rank or 0) > 0

    @property
    def attention_dp(self) -> bool:
        """Whether the ranks of attention data parallelism need ports between them."""
        return (self.attn_dp_size or 1) > 1 or bool(self.extra_flags.get("enable_dp_attention"))

    def resolved(self) -> "LaunchSpec":
        """With the defaults that Draftmill adds (those of the CPU engine), so that what is shown is what runs."""
        if self.device != "cpu":
            return self
        return self.model_copy(
            update={
                "attention_backend": self.attention_backend or "torch_native",
                "max_total_tokens": self.max_total_tokens or CPU_MAX_TOTAL_TOKENS,
                "dtype": self.dtype or cpu_dtype(),
                # an idle scheduler would spin on a core that whoever works beside it needs
                "extra_flags": {"sleep_on_idle": True} | self.extra_flags,
            }
        )


@functools.cache
def cpu_dtype() -> Literal["auto", "float32"]:
    """The dtype a CPU server is started with: float32 where the processor would only emulate the checkpoint's bfloat16.

    Measured on an AVX2 machine: one layer for a batch of 24 takes four times as long in emulated bfloat16.
    """
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return "auto"
    return "auto" if flags & {"avx512_bf16", "amx_bf16", "bf16", "svebf16"} else "float32"
