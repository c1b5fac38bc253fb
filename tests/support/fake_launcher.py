"""A stand-in for the interpreter that has sglang: a real child process that behaves, or misbehaves, as SGLang's does.

Installed as an executable file (see `install`), it stands where `python -m sglang.launch_server …` would: it prints
SGLang-like phases, opens its port, answers /ready, /health, /model_info, /server_info and /generate, and drains on SIGTERM.
A JSON file beside it says how to misbehave; it is read at each start, and again where a behaviour may change while it runs.
Standard library only, so that it is up in a tenth of a second.

Keys of the JSON file:
    exit            end with this code after printing `say`
    say             lines to print first
    load_s          seconds of "loading weights"
    warm_s          seconds in which /health is 503
    flood           lines printed before the port opens
    hang_loading    stay in "loading weights" for ever
    child           fork a child that ignores SIGTERM and, if "stays", outlives its parent
    ignore_term     ignore SIGTERM
    steal_port      behave as if another process took the port: errno 98, then hang
    stranger        answer with another weight version
    unhealthy       path: while this file exists, /health is 503
    sole            path: held by the whole tree while any of it lives; who finds it held notes so in `<path>.overlap`
"""

import argparse
import fcntl
import json
import os
import signal
import sys
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar


def install(folder: Path, **behaviour: object) -> Path:
    """Put an executable named `python` into `folder`, with its behaviour beside it; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "python"
    executable.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        if [ "$1" = "-I" ]; then exit 0; fi
        exec "{sys.executable}" -S "{Path(__file__).resolve()}" "{folder / "behaviour.json"}" "$@"
        """)
    )
    executable.chmod(0o755)
    behave(folder, **behaviour)
    return executable


def behave(folder: Path, **behaviour: object) -> None:
    """Change how the next start behaves."""
    (folder / "behaviour.json").write_text(json.dumps(behaviour))


def _say(line: str) -> None:
    sys.stderr.write(time.strftime("[%Y-%m-%d %H:%M:%S] ") + line + "\n")
    sys.stderr.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    warm = False
    version = ""
    key = ""
    model = ""
    behaviour: ClassVar[dict] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("content-length", 0))))

    def _answer(self, body: bytes) -> None:
        server = self.server
        if self.path in {"/health", "/ready"}:
            sick = server.behaviour.get("unhealthy")
            self._send(503 if not server.warm or (sick and Path(sick).exists()) else 200, b"")
        elif self.headers.get("authorization") != f"Bearer {server.key}":
            self._send(401, b'{"error":"Unauthorized"}')
        elif self.path == "/model_info":
            info = {"model_path": server.model, "tokenizer_path": server.model, "weight_version": server.version}
            self._json(info)
        elif self.path == "/server_info":
            self._json({"version": "0.5.23", "model_path": server.model, "context_length": 4096, "api_key": server.key})
        elif self.path == "/generate":
            asked = json.loads(body)
            meta = {
                "id": asked["rid"],
                "finish_reason": {"type": "length", "length": 1},
                "prompt_tokens": len(asked["input_ids"]),
                "completion_tokens": 1,
                "cached_tokens": 0,
                "weight_version": server.version,
            }
            self._json({"text": "x", "output_ids": [7], "prompt_token_ids": asked["input_ids"], "meta_info": meta})
        else:
            self._send(200, b"")

    def _json(self, data: dict) -> None:
        self._send(200, json.dumps(data).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  (the base class names it so)
        _say("INFO:     " + format % arguments)


def _hold(path: str) -> None:
    """Children inherit the open file, and with it the lock: it is free again only when the last of the tree is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with Path(f"{path}.overlap").open("a") as file:
            file.write(f"{os.getpid()} found another\n")


def _fork_child(stays: bool) -> None:
    if os.fork() != 0:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = os.getppid()
    while stays or os.getppid() == parent:
        time.sleep(0.05)
    os._exit(0)


def _load(behaviour: dict) -> None:
    for line in behaviour.get("say", []):
        _say(line)
    if "exit" in behaviour:
        sys.exit(behaviour["exit"])
    for number in range(behaviour.get("flood", 0)):
        sys.stdout.write(f"flood {number} " + "x" * 90 + "\n")
    sys.stdout.flush()
    _say("Init parallel begin.")
    _say("Load weight begin. avail mem=20.93 GB")
    sys.stderr.write("Multi-thread loading shards:   0% Completed | 0/2 [00:00<?, ?it/s]\r")
    sys.stderr.flush()
    while behaviour.get("hang_loading"):
        time.sleep(0.1)
    time.sleep(behaviour.get("load_s", 0.0))
    sys.stderr.write("Multi-thread loading shards: 100% Completed | 2/2 [00:00<00:00, 9.00it/s]\n")
    _say("Load weight end. elapsed=0.03 s, type=Qwen3ForCausalLM, avail mem=20.93 GB, mem usage=0.00 GB.")
    _say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 20000, K size: 0.00 GB, V size: 0.00 GB")
    _say("max_total_num_tokens=20000, chunked_prefill_size=4096, max_running_requests=2500, context_len=4096")


def main() -> None:
    behaviour = json.loads(Path(sys.argv[1]).read_text())
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("config", "model-path", "weight-version", "host"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--port", type=int)
    arguments, _ = parser.parse_known_args(sys.argv[2:])
    key = Path(arguments.config).read_text().split('"')[1]
    _say(f"server_args={{'model_path': '{arguments.model_path}', 'api_key': '{key}', 'admin_api_key': None}}")
    if "sole" in behaviour:
        _hold(behaviour["sole"])
    if "child" in behaviour:
        _fork_child(behaviour["child"] == "stays")
    term = threading.Event()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour.get("ignore_term") else signal.SIG_DFL)
    _load(behaviour)
    if behaviour.get("steal_port"):
        address = (arguments.host, arguments.port)
        _say(f"ERROR:    [Errno 98] error while attempting to bind on address {address}: address already in use")
        while True:
            time.sleep(0.1)
    server = _Server((arguments.host, arguments.port), _Handler)
    server.behaviour, server.key, server.model = behaviour, key, arguments.model_path
    server.version = "somebody-else" if behaviour.get("stranger") else arguments.weight_version
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _say(f"INFO:     Uvicorn running on http://{arguments.host}:{arguments.port} (Press CTRL+C to quit)")
    if not behaviour.get("ignore_term"):
        signal.signal(signal.SIGTERM, lambda *_: term.set())
    time.sleep(behaviour.get("warm_s", 0.0))
    server.warm = True
    _say("The server is fired up and ready to roll!")
    term.wait()
    _say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    _say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    sys.exit(0)


if __name__ == "__main__":
    main()
