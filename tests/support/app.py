"""The app as its users run it: a process of its own, driven over HTTP, ended by its own pid."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
START_S = 60


class LiveApp:
    """A running app: `url`, an admin's REST client, and its data directory."""

    def __init__(self, data_dir: Path, environment: dict[str, str]) -> None:
        self.data_dir = data_dir
        self.token = secrets.token_urlsafe(24)
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.url = ""
        self.login_url = ""

    def start(self) -> None:
        """Start the process and wait until it answers ready."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTMILL_")}
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self.data_dir / "app.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "api", "--port", "0", "--data-dir", str(self.data_dir), "--print-login-link"],
                cwd=ROOT,
                env=inherited | {"DRAFTMILL_ADMIN_TOKEN": self.token, "PYTHONUNBUFFERED": "1"} | self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "/login?code=" in line:
                self.login_url = line[line.index("http") :].strip()
                self.url = self.login_url.split("/login", maxsplit=1)[0]
                break
        else:
            raise AssertionError("the app ended: " + (self.data_dir / "app.log").read_text(errors="replace")[-2000:])
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()
        self.wait_for(
            lambda: httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200, START_S, "the app to be ready"
        )

    @property
    def pid(self) -> int:
        """The app's own pid."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL to the app alone, as a machine's trouble would do it; its worker sees the pipe close."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        """Let the reader of its output end, then close the pipe."""
        if self._reader is not None:
            self._reader.join(20)
            self._reader = None
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def stop(self) -> None:
        """End the app in order, and whatever of its children is left."""
        if self._process is None:
            return
        children = psutil.Process(self.pid).children(recursive=True) if self._process.poll() is None else []
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        for process in (*children,):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "inference.worker" in " ".join(process.cmdline()):
                    process.wait(20)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def end_servers(self) -> None:
        """Kill every SGLang server that the app still owns: they are made to outlive it, a test's must not."""
        with contextlib.suppress(httpx.TransportError):
            for backend in self.get("/backends", limit=100)["items"]:
                if backend["pid"] is not None and backend["kind"] == "managed":
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(backend["pid"], signal.SIGKILL)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One REST call as the admin; `path` is below /api/v1."""
        headers = {"Authorization": f"Bearer {self.token}"} | options.pop("headers", {})
        return httpx.request(
            method, f"{self.url}/api/v1{path}", headers=headers, timeout=60, trust_env=False, **options
        )

    def get(self, path: str, **query: Any) -> Any:
        """GET JSON; an error answer fails the test with what it said."""
        return self._json(self.request("GET", path, params=query))

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """POST JSON; an error answer fails the test with what it said."""
        return self._json(self.request("POST", path, json=body, **options))

    def put(self, path: str, body: Any) -> Any:
        """PUT JSON; an error answer fails the test with what it said."""
        return self._json(self.request("PUT", path, json=body))

    @staticmethod
    def _json(response: httpx.Response) -> Any:
        assert not response.is_error, (
            f"{response.request.method} {response.request.url}: {response.status_code} {response.text}"
        )
        return response.json()

    @staticmethod
    def wait_for(condition: Callable[[], Any], limit_s: float, what: str) -> Any:
        """Poll until `condition` gives something true, which is returned; fail the test after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while True:
            try:
                if value := condition():
                    return value
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, f"waited {limit_s} s for {what}"
            time.sleep(0.2)

    def wait_run(self, run_id: int, *states: str, limit_s: float = 240) -> Any:
        """Until the run is in one of the states (default: any completed one)."""
        wanted = states or ("completed", "completed_with_failures")

        def there() -> Any:
            run = self.get(f"/runs/{run_id}")
            return run if run["state"] in wanted else None

        return self.wait_for(there, limit_s, f"run {run_id} to be {' or '.join(wanted)}")

    def wait_backend(self, backend_id: int, *states: str, limit_s: float = 240) -> Any:
        """Until the backend is in one of the states."""

        def there() -> Any:
            backend = self.get(f"/backends/{backend_id}")
            assert "failed" in states or backend["observed_state"] != "failed", backend
            return backend if backend["observed_state"] in states else None

        return self.wait_for(there, limit_s, f"backend {backend_id} to be {' or '.join(states)}")


@contextlib.contextmanager
def live_app(data_dir: Path, **environment: str) -> Iterator[LiveApp]:
    """A running app that ends with the block."""
    app = LiveApp(data_dir, environment)
    try:
        app.start()
        yield app
    finally:
        app.end_servers()
        app.stop()
