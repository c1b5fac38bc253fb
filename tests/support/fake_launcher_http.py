"""The HTTP side of the fake launcher: what SGLang's endpoints answer while it starts, serves, hangs and drains.

Standard library only. What may change while it runs is a file named by the behaviour: it holds while the file exists.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


class Server(ThreadingHTTPServer):
    """One server; `behaviour` is the launcher's."""

    daemon_threads = True
    request_queue_size = 128
    warm = False
    draining = False
    frozen = False
    """Connections are accepted and nothing is answered, as during SGLang's crash diagnostics."""
    version = ""
    key = ""
    model = ""
    behaviour: ClassVar[dict] = {}

    def __init__(self, address: tuple[str, int]) -> None:
        self.in_flight: dict[str, threading.Event] = {}
        self.generated = 0
        super().__init__(address, _Handler)

    def is_set(self, name: str) -> bool:
        """Whether the file that the behaviour names exists."""
        named = self.behaviour.get(name)
        return bool(named) and Path(named).exists()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("content-length", 0))))

    def _answer(self, body: bytes) -> None:
        server, path = self.server, self.path.partition("?")[0]
        while server.frozen:
            time.sleep(0.02)
        if path in {"/health", "/ready"} and path not in server.behaviour.get("absent", []):
            if path == "/ready" and server.is_set("unhealthy") and server.behaviour.get("ready_is_blind"):
                self._send(200 if server.warm and not server.draining else 503, b"")
            else:
                well = server.warm and not server.draining and not server.is_set("unhealthy")
                self._send(200 if well else 503, b"")
        elif self.headers.get("authorization") != f"Bearer {server.key}":
            self._send(401, b'{"error":"Unauthorized"}')
        elif path == "/model_info":
            info = {"model_path": server.model, "tokenizer_path": server.model, "weight_version": server.version}
            self._json(info)
        elif path == "/v1/models":
            self._json({"object": "list", "data": [{"id": server.model, "object": "model"}]})
        elif path == "/server_info":
            self._json({"version": "0.5.23", "model_path": server.model, "context_length": 4096, "api_key": server.key})
        elif path == "/v1/loads" and path not in server.behaviour.get("absent", []):
            self._json(self._loads())
        elif path == "/abort_request":
            asked = json.loads(body)
            for rid in [rid for rid in server.in_flight if asked.get("abort_all") or rid == asked.get("rid")]:
                server.in_flight[rid].set()
            self._send(200, b"")
        elif path == "/generate":
            self._generate(json.loads(body))
        elif path in {"/metrics", "/v1/loads", "/ready"}:
            self._send(404, b'{"detail":"Not Found"}')
        else:
            self._send(200, b"")

    def _generate(self, asked: dict) -> None:
        """One token at once; a longer answer takes as long as the file `hold` exists, unless it is aborted."""
        server, aborted = self.server, threading.Event()
        if server.is_set("stuck"):  # a scheduler that hangs does not even count what waits for it
            while server.is_set("stuck"):
                time.sleep(0.02)
        elif asked.get("sampling_params", {}).get("max_new_tokens", 1) > 1:
            server.in_flight[asked["rid"]] = aborted
            while server.is_set("hold") and not aborted.is_set():
                time.sleep(0.02)
        server.in_flight.pop(asked["rid"], None)
        server.generated += 1
        reason = {"type": "abort", "message": "Aborted"} if aborted.is_set() else {"type": "length", "length": 1}
        meta = {
            "id": asked["rid"],
            "finish_reason": reason,
            "prompt_tokens": len(asked["input_ids"]),
            "completion_tokens": 1,
            "cached_tokens": 0,
            "weight_version": server.version,
        }
        self._json({"text": "x", "output_ids": [7], "prompt_token_ids": asked["input_ids"], "meta_info": meta})

    def _loads(self) -> dict:
        """As `/v1/loads` tells it; the file `loads`, where there is one, sets the figures."""
        figures = {"num_running_reqs": len(self.server.in_flight), "num_waiting_reqs": 0}
        if self.server.is_set("loads"):
            figures |= json.loads(Path(self.server.behaviour["loads"]).read_text())
        moments = [0.0, 0.0, 0.0, 0.0, 0.0, float(self.server.generated)]
        load = {
            "dp_rank": 0,
            "timestamp": time.time(),
            "num_used_tokens": 0,
            "max_total_num_tokens": 20_000,
            "token_usage": 0.0,
            "gen_throughput": 0.0,
            "cache_hit_rate": 0.0,
            "decode_moments": moments,
            **figures,
        }
        return {"timestamp": time.time(), "dp_rank_count": 1, "loads": [load]}

    def _json(self, data: dict) -> None:
        self._send(200, json.dumps(data).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  (the base class names it so)
        say("INFO:     " + format % arguments)


def say(line: str) -> None:
    """A line of the log, as SGLang writes it."""
    import sys

    sys.stderr.write(time.strftime("[%Y-%m-%d %H:%M:%S] ") + line + "\n")
    sys.stderr.flush()
