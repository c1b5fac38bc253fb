"""A null SGLang: answers at once, so that a benchmark sees the client's own cost and nothing else.

    python -m bench.null_engine [--tokens 2000]        prints the port it listens on

Speaks what a run needs (/generate, /health, /ready, /model_info, /server_info, /v1/models, /v1/loads, /abort_request) and
/v1/chat/completions with token ids, for other tools. Answers are made in advance: word-like skewed ids, a think block over
the first half, the stop id last; `prompt_token_ids` and `rid` are echoed as the real server echoes them.
"""

import argparse
import asyncio
import random
import re
from typing import cast

import orjson
import uvloop

VOCAB, EOS, OPEN, CLOSE = 151_936, 151_645, 151_667, 151_668
VARIANTS = 16
MODEL = {
    "model_path": "null",
    "served_model_name": "null",
    "tokenizer_path": "null",
    "is_generation": True,
    "weight_version": "default",
    "reasoning_parser": None,
    "tool_call_parser": None,
    "model_type": "qwen3",
}
SERVER = MODEL | {
    "version": "0.5.23",
    "allow_auto_truncate": False,
    "context_length": 40_960,
    "max_total_num_tokens": 4_000_000,
    "max_req_input_len": 40_954,
    "vocab_size": VOCAB,
    "internal_states": [{"effective_max_running_requests_per_dp": 2048}],
}
STATIC = {
    "/health": b"",
    "/health_generate": b"",
    "/ready": b"",
    "/abort_request": b"",
    "/model_info": orjson.dumps(MODEL),
    "/get_model_info": orjson.dumps(MODEL),
    "/server_info": orjson.dumps(SERVER),
    "/v1/models": orjson.dumps(
        {"object": "list", "data": [{"id": "null", "object": "model", "max_model_len": 40_960}]}
    ),
    "/v1/loads": orjson.dumps(
        {"timestamp": 0, "loads": [{"dp_rank": 0, "num_running_reqs": 0, "num_waiting_reqs": 0}]}
    ),
}
CONTENT_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
INPUT_IDS = re.compile(rb'"input_ids"\s*:\s*(\[[^\]]*\])')
RID = re.compile(rb'"rid"\s*:\s*("[^"]*")')
BUDGET = re.compile(rb'"max_(?:new_)?tokens"\s*:\s*(\d+)')


def answers(tokens: int) -> list[list[int]]:
    """The made-up answers: a few thousand common ids drawn with a heavy tail, one in ten rare."""
    rng = random.Random(7)
    common = [rng.randrange(100, 140_000) for _ in range(4000)]

    def draw(count: int) -> list[int]:
        return [
            common[min(len(common) - 1, int(rng.paretovariate(0.8)) - 1)]
            if rng.random() < 0.9
            else rng.randrange(100, 140_000)
            for _ in range(count)
        ]

    half = tokens // 2
    return [[OPEN, *draw(half), CLOSE, *draw(max(0, tokens - half - 3)), EOS] for _ in range(VARIANTS)]


class Engine:
    """Answers by path; one prompt a request."""

    def __init__(self, tokens: int) -> None:
        self._answers = answers(tokens)
        self._ids = [orjson.dumps(ids) for ids in self._answers]
        self._text = orjson.dumps(" ".join(f"word{i % 97}" for i in range(int(tokens * 0.8))))
        self._served = 0

    def answer(self, path: str, body: bytes) -> bytes | None:
        """The body of the answer, or None where there is no such path."""
        if path == "/generate":
            return self._generate(body)
        return self._chat(body) if path == "/v1/chat/completions" else STATIC.get(path)

    def _next(self, body: bytes) -> tuple[bytes, int, bytes]:
        self._served += 1
        pick = self._served % VARIANTS
        ids = self._answers[pick]
        budget = BUDGET.search(body)
        if budget is not None and int(budget[1]) < len(ids):
            length = int(budget[1])
            return orjson.dumps(ids[:length]), length, orjson.dumps({"type": "length", "length": length})
        return self._ids[pick], len(ids), b'{"type":"stop","matched":%d}' % EOS

    def _generate(self, body: bytes) -> bytes:
        ids, length, finish = self._next(body)
        prompt = INPUT_IDS.search(body)
        sent = prompt[1] if prompt else b"[]"
        count = sent.count(b",") + 1 if len(sent) > 2 else 0
        rid = RID.search(body)
        echo = b',"prompt_token_ids":' + sent if b'"return_prompt_token_ids":true' in body else b""
        return (
            b'{"text":%b,"output_ids":%b%b,"meta_info":{"id":%b,"finish_reason":%b,"prompt_tokens":%d,"weight_version":"default",'
            b'"num_retractions":0,"reasoning_tokens":0,"completion_tokens":%d,"cached_tokens":0,"dp_rank":null,"e2e_latency":0.01,'
            b'"response_sent_to_client_ts":1.0}}'
        ) % (self._text, ids, echo, rid[1] if rid else b'"0"', finish, count, length)

    def _chat(self, body: bytes) -> bytes:
        ids, length, _ = self._next(body)
        return (
            b'{"id":"c","object":"chat.completion","created":1,"model":"null","prompt_token_ids":[1,2,3],"choices":[{"index":0,'
            b'"token_ids":%b,"message":{"role":"assistant","content":%b,"reasoning_content":"r","tool_calls":null},"logprobs":null,'
            b'"finish_reason":"stop","matched_stop":%d}],"usage":{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}}'
        ) % (ids, self._text, EOS, length, length + 3)


class Http(asyncio.Protocol):
    """As much of HTTP/1.1 as clients with keep-alive use."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class is not a subclass

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            length = CONTENT_LENGTH.search(self._buffer[:end])
            total = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < total:
                return
            head, body, self._buffer = self._buffer[:end], self._buffer[end + 4 : total], self._buffer[total:]
            path = head.split(b" ", 2)[1].split(b"?")[0].decode()
            answer = self._engine.answer(path, body)
            status = b"200 OK" if answer is not None else b"404 Not Found"
            answer = answer if answer is not None else b'{"detail":"Not Found"}'
            self._transport.write(
                b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (status, len(answer), answer)
            )


async def main() -> None:
    """Serve on a free loopback port until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=2000)
    engine = Engine(parser.parse_args().tokens)
    server = await asyncio.get_running_loop().create_server(lambda: Http(engine), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
