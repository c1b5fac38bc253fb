"""The endpoints of the fake: `/generate`, information, health and control. Chat and tokenize are in `chat.py`."""

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

from tests.support.fake_sglang import chat
from tests.support.fake_sglang.errors import Refused, error_body, stream_error, validation_message
from tests.support.fake_sglang.model import Generated, Model
from tests.support.fake_sglang.sampling import check_body, check_sampling
from tests.support.fake_sglang.wire import Request, Response

OPEN = ("/health", "/ready", "/metrics")
ADMIN = ("/abort_request", "/flush_cache", "/pause_generation", "/continue_generation")
POST_ONLY = (
    "/generate",
    "/abort_request",
    "/v1/chat/completions",
    "/tokenize",
    "/v1/tokenize",
    "/detokenize",
    "/v1/detokenize",
)
CACHE_FLUSHED = (
    b"Cache flushed.\nPlease check backend logs for more details. "
    b"(When there are running or waiting requests, the operation will not be performed.)\n"
)
ALIASES = {"/get_model_info": "/model_info", "/get_server_info": "/server_info", "/health_generate": "/health"}


class Routes:
    """Answers requests for one model."""

    def __init__(self, model: Model, port: int) -> None:
        self.model, self.port = model, port

    async def answer(self, request: Request) -> Response:
        """The response, errors included. Raises Died where the request takes the server down."""
        try:
            self._authorize(request)
            return await self._route(request)
        except Refused as error:
            body, kind = error_body(error.status, error.shape, error.message)
            return Response(error.status, body, kind)

    def _authorize(self, request: Request) -> None:
        facts = self.model.facts
        if request.path.startswith(OPEN):
            return
        key = facts.api_key
        if request.path in ADMIN and facts.admin_api_key is not None:
            key = facts.admin_api_key
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            raise Refused(401, "e", "Unauthorized")

    async def _route(self, request: Request) -> Response:
        path, knobs = ALIASES.get(request.path, request.path), self.model.knobs
        if request.path in knobs.missing:
            raise Refused(404, "detail", "Not Found")
        if path in POST_ONLY and request.method not in {"POST", "PUT"}:
            raise Refused(405, "detail", "Method Not Allowed")
        if path == "/generate":
            return await self._generate(_json(request), request)
        if path == "/abort_request":
            body = _json(request)
            self.model.abort(str(body.get("rid") or ""), everything=bool(body.get("abort_all")))
            return Response()
        if path in {"/health", "/ready", "/ping"}:
            return await self._health(path)
        if path == "/metrics" and knobs.metrics is not None:
            return Response(200, knobs.metrics.encode(), "text/plain; version=1.0.0; charset=utf-8")
        if path in (simple := self._simple()):
            return simple[path]
        reply = await chat.answer(self.model, path, _json(request)) if path in POST_ONLY else None
        if reply is None:
            raise Refused(404, "detail", "Not Found")
        return reply

    def _simple(self) -> dict[str, Response]:
        facts, name = self.model.facts, self.model.facts.served_model_name
        entry = {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "sglang",
            "root": name,
            "parent": None,
        }
        return {
            "/model_info": Response.of(facts.model_info()),
            "/server_info": Response.of(facts.server_info(self.port)),
            "/v1/models": Response.of({"object": "list", "data": [{**entry, "max_model_len": facts.context_length}]}),
            "/v1/loads": Response.of(self.model.knobs.loads or self._loads()),
            "/flush_cache": Response(200, CACHE_FLUSHED),
            "/": Response(200, b"SGLang is running", "text/plain; charset=utf-8"),
        }

    async def _health(self, path: str) -> Response:
        knobs = self.model.knobs
        state = knobs.health if path != "/ready" or knobs.ready is None else knobs.ready
        if path == "/health":
            await asyncio.sleep(knobs.health_delay)
        if knobs.draining and path != "/ping":
            return Response(503)
        if state == "hang":
            await asyncio.Event().wait()
        if isinstance(state, int):
            return Response(state)
        if state.startswith("body:"):
            return Response(200, state.removeprefix("body:").encode(), "text/plain; charset=utf-8")
        return Response(200 if state == "ok" else 503)

    def _loads(self) -> dict[str, Any]:
        facts, running = self.model.facts, len(self.model.live)
        load = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": running,
            "num_waiting_reqs": 0,
            "num_waiting_uncached_tokens": 0,
            "num_used_tokens": 0,
            "num_total_tokens": 0,
            "max_total_num_tokens": facts.max_total_num_tokens,
            "max_running_requests": facts.max_running_requests,
            "token_usage": 0.0,
            "gen_throughput": self.model.knobs.throughput if running else 0.0,
            "cache_hit_rate": 0.0,
            "utilization": 0.0,
            "queues": {"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0},
        }
        return {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": facts.version,
            "accelerator": None,
            "num_accelerators": 1,
            "loads": [load],
        }

    async def _generate(self, raw: object, request: Request) -> Response:
        body = check_body(raw)
        ids = body.get("input_ids")
        batch = isinstance(ids, list) and bool(ids) and isinstance(ids[0], list)
        if batch and not self.model.knobs.batch:
            raise Refused(400, "c", "Batches are not served here.")
        prompts: list[list[int]]
        prompts = (ids if batch else [ids]) if isinstance(ids, list) else [self.model.vocabulary.encode(body["text"])]
        params = body.get("sampling_params")
        each = [check_sampling(p) for p in (params if isinstance(params, list) else [params] * len(prompts))]
        copies = max(1, int(each[0].get("n") or 1)) if each else 1
        rids = _rids(body.get("rid"), len(prompts), batch=batch, fresh=copies > 1)
        jobs = [
            self.model.generate(p, s, body, request.path, rid if copies == 1 else None)
            for p, s, rid in zip(prompts, each, rids, strict=True)
            for _ in range(copies)
        ]
        flat = [s for s in each for _ in range(copies)]
        if body.get("stream"):
            return await self._stream(jobs, flat, body)
        done = await asyncio.gather(*jobs)
        views = [self._view(d, s, body) for d, s in zip(done, flat, strict=True)]
        faults = done[0].answer
        text = json.dumps(views if batch or copies > 1 else views[0], separators=(",", ":"), ensure_ascii=False)
        payload = (text if faults.body is None else faults.body).encode()
        return Response(200, payload, "application/json", cut=faults.cut, drop=faults.drop)

    async def _stream(self, jobs: list[Any], each: list[dict[str, Any]], body: dict[str, Any]) -> Response:
        try:
            done: list[Generated] = await asyncio.gather(*jobs)
        except Refused as error:
            return Response(frames=(stream_error(error.message, error.status),))
        frames = []
        for index, (whole, sampling) in enumerate(zip(done, each, strict=True)):
            for end in range(1, len(whole.output_ids)):
                part = Generated(whole.output_ids[:end], {}, whole.prompt_ids, whole.rid, whole.answer, 0.0)
                view = self._view(part, sampling, body)
                view["meta_info"]["finish_reason"] = None
                frames.append(view | ({"index": index} if len(done) > 1 else {}))
            frames.append(self._view(whole, sampling, body) | ({"index": index} if len(done) > 1 else {}))
        return Response(frames=tuple(json.dumps(frame, separators=(",", ":")) for frame in frames))

    def _view(self, done: Generated, sampling: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        view: dict[str, Any] = (
            {} if self.model.facts.skip_tokenizer_init else {"text": self.model.text_of(done, sampling)}
        )
        view["output_ids"] = done.output_ids
        if body.get("return_prompt_token_ids") and self.model.knobs.echo_prompt_ids:
            echo = done.answer.prompt_token_ids
            view["prompt_token_ids"] = done.prompt_ids if echo is None else echo
        start = body.get("logprob_start_len")
        view["meta_info"] = self.model.meta_of(
            done, logprobs=bool(body.get("return_logprob")), scored_from=-1 if start is None else int(start)
        )
        return {key: value for key, value in view.items() if key not in done.answer.remove}


def _json(request: Request) -> Any:
    if not request.raw:
        raise Refused(400, "a", validation_message("missing", ("body",), "Field required", None))
    try:
        request.body = json.loads(request.raw, parse_constant=_refuse_constant)
    except ValueError as error:
        raise Refused(400, "a", validation_message("json_invalid", ("body", 1), "JSON decode error", {})) from error
    return request.body


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _rids(rid: Any, count: int, *, batch: bool, fresh: bool) -> list[str | None]:
    if rid is None or fresh:
        return [None] * count
    rids = (
        [str(r) for r in rid]
        if isinstance(rid, list)
        else [f"{rid}_{i}" for i in range(count)]
        if batch
        else [str(rid)]
    )
    if duplicates := sorted({r for r in rids if rids.count(r) > 1}):
        raise Refused(400, "c", f"Duplicate request IDs detected within the request: {duplicates}")
    return [*rids]
