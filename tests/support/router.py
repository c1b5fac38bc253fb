"""SGLang's own router (Model Gateway) in front of servers of a test: a process of its own, ended by its pid."""

import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from tests.support.absent import missing
from tests.support.fake_sglang import FakeSglang

START_S = 60.0
_open = build_opener(ProxyHandler({})).open


@contextmanager
def routing(servers: Sequence[FakeSglang], log: Path, *more: str) -> Iterator[str]:
    """The URL of a router that sends to these in turn, once it has met them all; `more` are flags of its own."""
    if importlib.util.find_spec("sglang_router") is None:
        missing("sglang-router has no build for this machine")
    port, metrics = _free_port(), _free_port()
    urls = [server.url for server in servers]
    command = [sys.executable, "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--policy", "round_robin", "--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics)]
    with (
        log.open("wb") as out,
        subprocess.Popen([*command, *more, "--worker-urls", *urls], stdout=out, stderr=subprocess.STDOUT) as process,
    ):
        try:
            _wait(f"http://127.0.0.1:{port}", len(servers), process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait(url: str, servers: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with _open(f"{url}/readiness", timeout=5) as answer:
                if json.load(answer)["healthy_workers"] == servers:
                    return
        except (URLError, OSError):
            pass
        time.sleep(0.05)
    raise AssertionError(f"the router did not come up: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
