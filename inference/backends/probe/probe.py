"""The fidelity probe: whether the ids of a server can be trusted, asked before a run relies on it, and what text would lose.

It reports and never raises for a sick server. A refusal needs a contradiction; what could not be seen is a note.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import Field

from db.types import now
from inference.backends.probe import fidelity
from inference.backends.probe.fidelity import Check
from inference.backends.probe.threeways import ThreeWays, chat_way, compare
from inference.backends.server.client import GenerateError, Generation, SglangClient, new_rid
from inference.model import View
from inference.tokens.errors import TokensError
from inference.tokens.formats import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.rendering import render
from inference.tokens.tokenizer import Tokenizer

_T = TypeVar("_T")

QUESTION = "How many legs does a spider have? Think it over briefly, then answer in one short sentence."
"""Plain and short; reasoning is due wherever the template lets the model reason"""

ANSWER_TOKENS = 160
"""Room for a short think block and an answer; a small model that does not close it shows that, too"""

TIMEOUT_S = 180.0

MEETINGS, MOST_MEETINGS = 4, 32
"""Requests for each server behind a router, and together: enough to meet most, whatever it goes by"""
_ONE_TOKEN = {"temperature": 0.0, "max_new_tokens": 1}


class ProbeReport(View):
    """What the probe found. `ok`: no refusal. `checks`: ok None where it could not be seen. `server`: what may be kept of its facts."""

    ok: bool
    refusals: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    checks: list[Check] = Field(default_factory=list)
    three_ways: ThreeWays | None = None
    tokenizer: str
    tokenizer_sha256: str
    token_format: str | None = None
    server: dict[str, Any] = Field(default_factory=dict)
    weight_versions: list[str] = Field(default_factory=list)
    """Those that its answers carried; several where differing servers stand behind a router"""
    at: datetime


async def probe(
    client: SglangClient,
    tokenizer: Tokenizer,
    bound: BoundFormat | None,
    *,
    weight_version: str | None = None,
    question: str = QUESTION,
    max_new_tokens: int = ANSWER_TOKENS,
    timeout_s: float = TIMEOUT_S,
) -> ProbeReport:
    """Probes one server with the tokenizer and token format that a run would use.

    Args:
        client: of the server.
        tokenizer: the one that renders prompts and reads answers here.
        bound: the token format, None where none fits.
        weight_version: what the answers must carry; None where it is not known (an attached server).
        question: the prompt that is asked three ways.
        max_new_tokens: how long its answer may get.
        timeout_s: limit for each request, in seconds.
    """
    asked = _Asked(client, tokenizer, bound, weight_version, question, max_new_tokens, timeout_s)
    await asked.everything()
    refusals = [check.text for check in asked.checks if check.ok is False]
    return ProbeReport(
        ok=not refusals,
        refusals=refusals,
        notes=[*(check.text for check in asked.checks if check.ok is None), *asked.notes],
        checks=asked.checks,
        three_ways=asked.ways,
        tokenizer=tokenizer.name,
        tokenizer_sha256=tokenizer.sha256,
        token_format=bound.name if bound else None,
        server=asked.server,
        weight_versions=sorted(asked.weight_versions),
        at=now(),
    )


class _Asked:
    """One probe under way: what it was told, and the checks so far."""

    def __init__(
        self,
        client: SglangClient,
        tokenizer: Tokenizer,
        bound: BoundFormat | None,
        weight_version: str | None,
        question: str,
        max_new_tokens: int,
        timeout_s: float,
    ) -> None:
        self.client, self.tokenizer, self.bound, self.weight_version = client, tokenizer, bound, weight_version
        self.messages = [{"role": "user", "content": question}]
        self.question, self.max_new_tokens, self.timeout_s = question, max_new_tokens, timeout_s
        self.checks: list[Check] = []
        self.notes: list[str] = []
        self.server: dict[str, Any] = {}
        self.ways: ThreeWays | None = None
        self.weight_versions: set[str] = set()

    async def everything(self) -> None:
        """Asks all there is to ask; stops where the server does not answer, or must not be asked."""
        try:
            self.server = await fidelity.told_of_itself(self.client)
        except GenerateError as error:
            self.checks.append(
                Check(name="server", ok=False, text=f"The server does not say what it is: {error.message}")
            )
            return
        self.checks += [
            *fidelity.router(self.server),
            fidelity.version(self.server),
            fidelity.auto_truncate(self.server),
        ]
        self.checks += fidelity.vocabulary_size(self.server, self.tokenizer)
        if any(check.ok is False for check in self.checks):
            return
        prompt_ids = self._render()
        self.checks.append(
            await self._look(
                "conversation", fidelity.conversation(self.client, self.tokenizer, self.messages, prompt_ids)
            )
        )
        self.checks.append(await self._look("vocabulary", fidelity.vocabulary(self.client, self.tokenizer, self.bound)))
        if prompt_ids is None or int(prompt_ids.max()) >= self.tokenizer.vocab_size:
            prompt_ids = None
        if prompt_ids is None or self.checks[-1].ok is False:  # an id unknown to the server would take it down
            return
        await self._ask(prompt_ids)

    def _render(self) -> Ids | None:
        try:
            declared = self.bound.format if self.bound else None
            return render(self.tokenizer, self.messages, token_format=declared).ids
        except TokensError as error:
            self.checks.append(
                Check(name="template", ok=False, text=f"A conversation cannot be rendered: {error.message}")
            )
            return None

    async def _look(self, name: str, check: Awaitable[Check]) -> Check:
        try:
            return await check
        except GenerateError as error:
            return Check(
                name=name, ok=None, text=f"Not seen: the server does not answer what would show it ({error.message})."
            )

    async def _ask(self, prompt_ids: Ids) -> None:
        sampling = {"temperature": 0.0, "max_new_tokens": self.max_new_tokens}
        generation, chat = await asyncio.gather(
            _or_error(self.client.generate(prompt_ids, sampling, new_rid(), self.timeout_s)), _or_error(self._chat())
        )
        if isinstance(generation, GenerateError):
            text = f"A request by ids was not answered: {generation.message}"
            self.checks.append(Check(name="ids", ok=False, text=text))
            return
        seen = None
        if generation.prompt_ids is None:
            seen = await _or_error(fidelity.seen_by_logprobs(self.client, prompt_ids, self.timeout_s))
        self._judge(prompt_ids, generation, None if isinstance(seen, GenerateError) else seen)
        await self._meet_all(prompt_ids, generation)
        self.ways = compare(self.tokenizer, self.bound, self.question, prompt_ids, generation, chat_way(chat))

    async def _meet_all(self, prompt_ids: Ids, generation: Generation) -> None:
        """Which weights answer; behind a router some small requests more, each of its own, to meet the servers there."""
        workers = self.server.get("router_workers")
        more = min(MEETINGS * workers, MOST_MEETINGS) if isinstance(workers, int) and workers > 1 else 0
        asks = (
            _or_error(self.client.generate(prompt_ids[number:], _ONE_TOKEN, new_rid(), self.timeout_s))
            for number in range(1, min(more, len(prompt_ids) - 1) + 1)
        )
        answers = [generation, *await asyncio.gather(*asks)]
        self.weight_versions = {
            answer.weight_version
            for answer in answers
            if isinstance(answer, Generation) and answer.weight_version is not None
        }
        self.checks += fidelity.alike(self.weight_versions)

    def _judge(self, prompt_ids: Ids, generation: Generation, seen: Sequence[int] | None) -> None:
        checks: Sequence[Check] = (
            fidelity.echo(prompt_ids, generation, seen),
            fidelity.counts(prompt_ids, generation),
            fidelity.inside_vocabulary(generation, self.tokenizer),
            *fidelity.weights(generation, self.weight_version),
            *fidelity.delimiters(self.bound, prompt_ids, generation),
        )
        self.checks += checks

    async def _chat(self) -> object:
        body = {
            "model": self.server.get("served_model_name") or self.server.get("model_path") or "default",
            "messages": self.messages,
            "max_tokens": self.max_new_tokens,
            "temperature": 0.0,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "return_token_ids": True,
        }
        return await self.client.call("POST", "/v1/chat/completions", body, timeout_s=self.timeout_s)


async def _or_error(awaitable: Awaitable[_T]) -> _T | GenerateError:
    try:
        return await awaitable
    except GenerateError as error:
        return error
