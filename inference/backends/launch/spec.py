"""What people ask for: one SGLang server, in SGLang's own flag names, typed and checked as far as can be without disk or process.

What each field means, for people, stands in `fields.py`; what the fields forbid each other, in `rules.py`.
"""

import functools
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from inference.backends.launch import choices, former, rules
from inference.backends.launch.fields import described
from inference.backends.launch.flags import FlagValue, check_flags

CPU_MAX_TOTAL_TOKENS = 20_000
"""Without a limit the CPU engine takes 0.7 of the machine's memory for its cache."""

DRAIN_LIMIT_S = 30.0
"""How long a stop waits for requests in flight where nobody says otherwise"""

OURS = frozenset({"extra_flags", "gpus", "startup_limit_s", "drain_limit_s"})
"""Fields that are no flags of SGLang"""

MOST = 2**63 - 1
"""A whole number that is larger is a slip, and fits neither SGLang's tensors nor a reader of JSON"""

LONGEST_S = 31_536_000.0
"""A year: a limit beyond it is no limit, and its end would be no date"""

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_AMOUNT = re.compile(r"([0-9]{1,12})(?:(\.[0-9]{1,6})?(k|M|G)|(Ki|Mi|Gi))")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of controls, of marks that are not seen (direction, joining), of line and paragraph ends"""
_TIMES = {"k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def is_hub_id(name: str) -> bool:
    """Whether it reads as `organisation/name` on a model hub (a path starts with `/`, `.` or `~`)."""
    return _HUB_ID.fullmatch(name) is not None and ".." not in name


def _amount(value: Any) -> Any:
    """`32k` → 32000, `32Ki` → 32768, as SGLang reads them (`human_readable_int`); anything else is left to pydantic."""
    found = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return value
    whole, fraction, thousand, kilo = found.groups()
    return int(Decimal(whole + (fraction or "")) * _TIMES[thousand or kilo])


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value  # as SGLang does


def _plain(value: str) -> str:
    """What argparse takes for a value, and what reads on a page as it runs: no dash first, nothing that turns a line round."""
    if value.startswith("-") or any(unicodedata.category(letter) in _UNSEEN for letter in value):
        raise ValueError("must not start with a dash nor hold control characters")
    return value


def _one_of(words: tuple[str, ...]) -> AfterValidator:
    return AfterValidator(choices.one_of(words))


Whole = Annotated[int, Field(le=MOST)]
Amount = Annotated[Whole, BeforeValidator(_amount)]
Name = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_plain)]
Width = Annotated[int, Field(ge=1, le=1024)]
Gpu = Annotated[str, Field(pattern=r"^(GPU|MIG)-[0-9A-Za-z/-]{8,80}$")]
Seconds = Annotated[float, Field(allow_inf_nan=False, le=LONGEST_S)]


class LaunchSpec(BaseModel):
    """How to start one SGLang server, in SGLang's own flag names. What is None is left to SGLang."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), json_schema_extra=described)

    model_path: Name
    tokenizer_path: Name | None = None
    served_model_name: Annotated[Name, Field(max_length=200)] | None = None
    context_length: Annotated[Amount, Field(ge=1)] | None = None
    trust_remote_code: bool = False

    device: Literal["cuda", "cpu", "xpu", "hpu", "npu", "musa"] | None = None
    gpus: list[Gpu] = Field(default_factory=list, max_length=64)
    tp_size: Width | None = None
    pp_size: Width | None = None
    dp_size: Width | None = None
    attn_dp_size: Width | None = None
    ep_size: Width | None = None

    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)] | None = None
    max_total_tokens: Annotated[Amount, Field(ge=1)] | None = None
    kv_cache_dtype: Annotated[str, _one_of(choices.KV_CACHE_DTYPES)] | None = None
    max_running_requests: Annotated[Whole, Field(ge=1)] | None = None
    max_queued_requests: Annotated[Whole, Field(ge=1)] | None = None
    chunked_prefill_size: Annotated[Whole, Field(ge=-1)] | None = None

    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] | None = None
    quantization: Annotated[str, _one_of(choices.QUANTIZATIONS)] | None = None
    load_format: Annotated[str, _one_of(choices.LOAD_FORMATS)] | None = None
    weight_loader_disable_mmap: bool = False
    weight_loader_prefetch_checkpoints: bool = False

    attention_backend: Annotated[str, _one_of(choices.ATTENTION_BACKENDS)] | None = None
    disable_cuda_graph: bool = False
    cuda_graph_max_bs_decode: Annotated[Whole, Field(ge=1)] | None = None

    speculative_algorithm: Annotated[str, BeforeValidator(_upper), _one_of(choices.SPECULATIVE_ALGORITHMS)] | None = (
        None
    )
    speculative_draft_model_path: Name | None = None
    speculative_num_steps: Annotated[Whole, Field(ge=1)] | None = None
    speculative_eagle_topk: Annotated[Whole, Field(ge=1)] | None = None
    speculative_num_draft_tokens: Annotated[Whole, Field(ge=1)] | None = None

    nnodes: Width | None = None
    node_rank: Annotated[int, Field(ge=0, le=1023)] | None = None
    dist_init_addr: Annotated[Name, Field(max_length=255)] | None = None

    reasoning_parser: Annotated[str, _one_of(choices.REASONING_PARSERS)] | None = None
    tool_call_parser: Annotated[str, _one_of(choices.TOOL_CALL_PARSERS)] | None = None
    random_seed: Annotated[Whole, Field(ge=0)] | None = None
    enable_deterministic_inference: bool = False

    enable_metrics: bool = False
    startup_limit_s: Annotated[Seconds, Field(gt=0)] | None = None
    drain_limit_s: Annotated[Seconds, Field(ge=0)] = DRAIN_LIMIT_S
    extra_flags: dict[str, FlagValue] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _up_to_date(cls, data: Any) -> Any:
        return former.brought_up(data) if isinstance(data, Mapping) else data

    @field_validator("served_model_name")
    @classmethod
    def _no_colon(cls, value: str | None) -> str | None:
        if value is not None and ":" in value:
            raise ValueError("SGLang refuses a served_model_name with a colon in it")
        return value

    @field_validator("extra_flags", mode="before")
    @classmethod
    def _allowed(cls, value: Any) -> Any:
        return check_flags(value, tuple(cls.model_fields)) if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _consistent(self) -> "LaunchSpec":
        broken = rules.faults(self)
        if broken:  # each at its own field, which a plain ValueError cannot say
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [
                    InitErrorDetails(
                        type=PydanticCustomError("launch_rule", "{sentence}", {"sentence": sentence}),
                        loc=(field,),
                        input=getattr(self, field),
                    )
                    for field, sentence in broken
                ],
            )
        return self

    @property
    def follower(self) -> bool:
        """Whether it is a node of a server that answers elsewhere: it serves no requests of its own."""
        return (self.node_rank or 0) > 0

    @property
    def attention_dp(self) -> bool:
        """Whether attention data parallelism needs ports between its processes."""
        return (self.attn_dp_size or 1) > 1

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
