"""The fake's model: takes prompts in flight, asks the script, applies stop and length rules, builds `meta_info`."""

import asyncio
import inspect
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.fake_sglang.errors import Died, Refused
from tests.support.fake_sglang.facts import Facts, Knobs
from tests.support.fake_sglang.sampling import check_length
from tests.support.fake_sglang.script import Answer, Call, Script
from tests.support.fake_sglang.vocabulary import END_OF_TEXT, RECORDED_ANSWER, Vocabulary

SPEED = 200.0
"""Tokens a second that an aborted request is taken to have made meanwhile"""


@dataclass
class Generated:
    """One finished prompt: the ids, why it ended, and the answer with its faults."""

    output_ids: list[int]
    finish_reason: dict[str, Any]
    prompt_ids: list[int]
    rid: str
    answer: Answer
    seconds: float
    queued: bool = False


class Model:
    """Prompts in flight by rid, and the script that answers them."""

    def __init__(self, facts: Facts, knobs: Knobs, vocabulary: Vocabulary, script: Script | None) -> None:
        self.facts, self.knobs, self.vocabulary, self.script = facts, knobs, vocabulary, script
        self.live: dict[str, asyncio.Event] = {}
        self.count = 0
        self.peak = 0

    def abort(self, rid: str, *, everything: bool = False) -> None:
        """Ends the request with this rid, or all; an unknown one is ignored. Prefixes count only by knob."""
        for live, event in self.live.items():
            if everything or live == rid or (self.knobs.abort_by_prefix and rid in self.live and live.startswith(rid)):
                event.set()

    async def generate(
        self, prompt: Sequence[int], sampling: dict[str, Any], body: dict[str, Any], path: str, rid: str | None
    ) -> Generated:
        """Answers one prompt. Raises Refused, or Died where the server goes down with it."""
        rid = rid or uuid.uuid4().hex
        prompt_ids, limit = self._fit(list(prompt), sampling.get("max_new_tokens", 128))
        if rid in self.live:
            raise Refused(400, "c", f"Duplicate request ID detected: {rid}")
        event = self.live[rid] = asyncio.Event()
        self.peak = max(self.peak, len(self.live))
        self.count += 1
        started = time.monotonic()
        try:
            if not prompt_ids or min(prompt_ids) < 0 or max(prompt_ids) >= self.facts.vocab_size:
                raise Died
            text = self.vocabulary.decode(prompt_ids, skip_special=False)
            answer = await self._ask(Call(self.count, path, rid, prompt_ids, text, sampling, body))
            if answer.die or (self.knobs.die_after is not None and self.count >= self.knobs.die_after):
                raise Died
            output, reason = self._finish(answer, sampling, limit)
            if await self._pass_time(answer, len(output), event):
                made = 0 if answer.queued else min(len(output), int((time.monotonic() - started) * SPEED))
                message = "Abort in waiting queue" if answer.queued else "Aborted"
                reason = {"type": "abort", "message": message, "status_code": None, "err_type": None}
                return Generated(
                    output[:made], reason, prompt_ids, rid, answer, time.monotonic() - started, answer.queued
                )
        finally:
            del self.live[rid]
        if answer.status is not None:
            raise Refused(answer.status, answer.shape, answer.message)
        return Generated(output, reason, prompt_ids, rid, answer, time.monotonic() - started)

    def _fit(self, prompt: list[int], limit: int | None) -> tuple[list[int], int]:
        context, longest = self.facts.context_length, self.facts.max_req_input_len
        if self.facts.allow_auto_truncate:
            prompt = prompt[: longest - 1]
        else:
            check_length(len(prompt), limit, context, longest)
        room = context - 1 - len(prompt) - 1
        return prompt, room if limit is None else min(limit, room)

    async def _ask(self, call: Call) -> Answer:
        reply = self.script(call) if self.script is not None else None
        if inspect.isawaitable(reply):
            reply = await reply
        if reply is None:
            return Answer()
        return Answer(output_ids=list(reply)) if isinstance(reply, list) else reply

    async def _pass_time(self, answer: Answer, tokens: int, event: asyncio.Event) -> bool:
        """Waits as long as the answer takes; True where it was aborted meanwhile."""
        seconds = None if answer.hang else answer.delay + self.knobs.token_time * tokens
        if seconds == 0:
            return False
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _finish(self, answer: Answer, sampling: dict[str, Any], limit: int) -> tuple[list[int], dict[str, Any]]:
        ids = list(RECORDED_ANSWER if answer.output_ids is None else answer.output_ids)
        if answer.exact:
            last = ids[-1] if ids else None
            reason = (
                {"type": "stop", "matched": last}
                if last in self.vocabulary.eos_ids
                else {"type": "length", "length": len(ids)}
            )
            return ids, answer.finish_reason or reason
        stops = (
            set()
            if sampling.get("ignore_eos")
            else set(self.vocabulary.eos_ids) | set(sampling.get("stop_token_ids") or [])
        )
        strings = [sampling["stop"]] if isinstance(sampling.get("stop"), str) else list(sampling.get("stop") or [])
        out: list[int] = []
        position = 0
        while len(out) < limit:
            token = ids[position] if position < len(ids) else END_OF_TEXT
            position += 1
            out.append(token)
            if strings and (text := self.vocabulary.decode(out, skip_special=True)):
                hit = next((s for s in strings if s in text), None)
                if hit is not None:
                    return out, answer.finish_reason or {"type": "stop", "matched": hit}
            if token in stops:
                return out, answer.finish_reason or {"type": "stop", "matched": token}
            if position >= len(ids) and len(out) < limit and not sampling.get("ignore_eos"):  # a script without stop id
                return out, answer.finish_reason or {"type": "stop", "matched": token}
        return out, answer.finish_reason or {"type": "length", "length": limit}

    def text_of(self, done: Generated, sampling: dict[str, Any], *, skip_special: bool | None = None) -> str:
        """The answer's text as the detokenizer gives it: the matched stop trimmed, specials left out unless asked for."""
        skip = sampling.get("skip_special_tokens", True) if skip_special is None else skip_special
        keep = bool(sampling.get("no_stop_trim"))
        ids, matched = done.output_ids, done.finish_reason.get("matched")
        if isinstance(matched, int) and ids and ids[-1] == matched and not keep:
            ids = ids[:-1]
        text = self.vocabulary.decode(ids, skip_special=bool(skip))
        if isinstance(matched, str) and matched in text:
            text = text[: text.index(matched) + (len(matched) if keep else 0)]
        return text

    def meta_of(self, done: Generated, *, logprobs: bool = False, scored_from: int = -1) -> dict[str, Any]:
        """`meta_info`, in the server's order of keys, with the answer's overrides; −1: no log-probabilities of the prompt."""
        answer, n = done.answer, len(done.output_ids)
        version = answer.weight_version or self.facts.weight_version
        if done.queued:
            return {
                "id": done.rid,
                "finish_reason": done.finish_reason,
                "weight_version": version,
                "e2e_latency": done.seconds,
                "completion_tokens": 0,
            }
        meta: dict[str, Any] = {
            "id": answer.rid or done.rid,
            "finish_reason": done.finish_reason,
            "prompt_tokens": len(done.prompt_ids) if answer.prompt_tokens is None else answer.prompt_tokens,
            "weight_version": version,
            "num_retractions": 0,
        }
        if logprobs:
            scored = done.prompt_ids[scored_from:] if scored_from >= 0 else []
            meta["input_token_logprobs"] = [[None if at == 0 else 0.0, token, None] for at, token in enumerate(scored)]
            meta["output_token_logprobs"] = [[0.0, token, None] for token in done.output_ids]
            meta["output_token_logprobs_length"] = n
        meta |= {
            "reasoning_tokens": 0,
            "completion_tokens": n if answer.completion_tokens is None else answer.completion_tokens,
            "cached_tokens": 0,
            "weight_versions": [{"version": version, "start": 0, "end": n}],
            "cached_tokens_details": None,
            "dp_rank": None,
            "e2e_latency": done.seconds,
            "response_sent_to_client_ts": time.time(),
            **answer.meta,
        }
        return {key: value for key, value in meta.items() if key not in answer.remove}
