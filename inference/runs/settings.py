"""What a run was asked to do (`NewRun`), and what it will do (`RunSettings`): resolved, frozen, fingerprinted.

SGLang's `/generate` reads no `generation_config.json` and samples at its own defaults whatever is left out, 128 new tokens
among them. So nothing is left out: `RunSettings.sampling` holds every value that is sent, and `sources` says in words where
each came from.
"""

import hashlib
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from inference.quality.guard import GuardSettings
from inference.runs.switches import default_off

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]

RenderFaults = Literal["skip", "generate"]

Role = Annotated[str, StringConstraints(min_length=1, max_length=60)]

MIN_BUDGET: Final = 16
"""Tokens: a prompt that leaves less room than this (or than the wanted budget, if smaller) is too long to be worth sending."""


class Sampling(BaseModel):
    """Sampling values as SGLang names and bounds them (protocol reference, `sampling_params`); None = to be resolved."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    min_p: float | None = Field(None, ge=0, le=1)
    max_new_tokens: int | None = Field(None, ge=1)
    min_new_tokens: int | None = Field(None, ge=0)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0, le=2)
    stop: list[str] | None = Field(None, max_length=32)
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None


SAMPLING_DEFAULTS: Final[dict[str, Any]] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "min_new_tokens": 0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "stop": [],
    "stop_token_ids": [],
    "ignore_eos": False,
}
"""What is sent where neither the request nor the model's generation_config says anything: plain sampling, nothing cut."""

FROM_GENERATION_CONFIG: Final = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens")
"""The keys of `generation_config.json` that SGLang's chat endpoint honours, and the budget."""

DEFAULT_CONTEXT: Final = 4096
DEFAULT_BUDGET: Final = 16_384
DEFAULT_CONCURRENCY: Final = 64
DEFAULT_TIMEOUT_S: Final = 3600.0


class NewRun(BaseModel):
    """A request for a run. What is left out is resolved, recorded, and shown before and after launch."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    prompt_set_id: int
    backend_ids: list[int] = Field(min_length=1)
    tokenizer: str | None = Field(
        None, description="Path below a model root, or hub id; left out: the backend's model."
    )
    token_format: str | None = Field(None, description="Left out: the one that fits the tokenizer.")
    sampling: Sampling = Field(default_factory=lambda: Sampling.model_validate({}))
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="Base of every sample's own seed; honoured by deterministic servers."
    )
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    repeats: int = Field(1, ge=1, le=10_000, description="Samples per prompt.")
    categories: list[str] | None = Field(None, description="Only prompts of these categories; left out: all.")
    limit: int | None = Field(None, ge=1, description="At most so many prompts, in the upload's order.")
    concurrency: int | None = Field(None, ge=1, le=4096, description="Requests in flight at each backend.")
    timeout_s: float | None = Field(
        None, gt=0, le=86_400 * 7, description="Seconds until an unanswered request is aborted."
    )
    tries: int = Field(
        3, ge=1, le=20, description="Attempts per sample where the cause may pass (timeout, malformed, NaN)."
    )
    guard: GuardSettings | None = Field(None, description="Left out: the default thresholds; null: no guard.")
    checks: dict[str, bool] = Field(
        default_factory=dict, description="{flag code: on or off}; those left out have their default (GET /flags)."
    )
    render_faults: RenderFaults = Field(
        "skip",
        description="A prompt that lost content when it was rendered: skip (it fails as content_lost and is not sent) or generate.",
    )

    role_map: dict[Role, Role] = Field(
        default_factory=dict,
        description='Roles rendered under another name, for a template that does not know them: {"developer": "system"}.',
    )

    @property
    def guard_left_out(self) -> bool:
        """True where the request does not mention the guard at all."""
        return "guard" not in self.model_fields_set


class RunSettings(BaseModel):
    """Everything that decides what a run generates and how. Frozen at launch; stored as JSON in `Run.settings`."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    prompt_set_id: int
    backend_ids: tuple[int, ...]
    model: str | None
    """What the first backend serves, as it names it"""
    tokenizer: str
    tokenizer_sha256: str
    template_sha256: str | None
    vocab_size: int
    """An id ≥ this is never sent: it would kill the server"""
    stop_ids: tuple[int, ...]
    token_format: str
    sampling: Sampling
    seed: int
    chat_template_kwargs: dict[str, Any]
    context_length: int
    max_prompt_tokens: int
    """Longest prompt that is sent, in tokens"""
    repeats: int
    categories: tuple[str, ...] | None
    limit: int | None
    concurrency: int
    timeout_s: float
    tries: int
    guard: GuardSettings | None
    checks_off: tuple[str, ...] = Field(default_factory=default_off)
    """Flag codes that are not looked for"""
    render_faults: RenderFaults = "skip"
    """Whether a prompt that lost content in rendering is sent"""
    role_map: dict[str, str] = Field(default_factory=dict)
    """{role in the prompt set: role that the chat template gets}"""
    sources: dict[str, str] = Field(default_factory=dict)
    """{setting: where its value came from, in words}"""


_OPERATIONAL: Final = {"backend_ids", "concurrency", "timeout_s", "tries", "guard", "checks_off", "sources"}


def fingerprint(settings: RunSettings) -> str:
    """SHA-256 (hex) of what decides the data: two runs with one fingerprint ask for the same samples.

    Which servers do it, how many at once, what would stop it and what is looked for in the answers are left out.
    """
    data = settings.model_dump(mode="json", exclude=_OPERATIONAL)
    if settings.render_faults == "skip":  # so that runs from before it could be chosen have the fingerprint they had
        del data["render_faults"]
    if not settings.role_map:
        del data["role_map"]
    return hashlib.sha256(orjson.dumps(data, option=orjson.OPT_SORT_KEYS)).hexdigest()


def sampling_request(sampling: Sampling) -> dict[str, Any]:
    """What goes into `sampling_params`: every value that is set; empty stop lists are sent as absent."""
    return {key: value for key, value in sampling.model_dump().items() if value is not None and value != []}


def merged_sampling(base: Sampling, changes: dict[str, Any]) -> Sampling:
    """`base` with the changed values put over it; a null leaves what is there, so that nothing is left to a server's default."""
    return Sampling.model_validate({**base.model_dump(), **{k: v for k, v in changes.items() if v is not None}})


def seed_for(base: int, prompt_id: int, turn: int, repeat: int, attempt: int) -> int:
    """A seed of its own for each attempt, the same whenever and wherever it is made.

    A deterministic server without a seed uses one fixed seed for all, and repeats of a prompt would come out identical.
    """
    text = f"{base}/{prompt_id}/{turn}/{repeat}/{attempt}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
