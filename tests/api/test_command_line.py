"""`python -m api` and `python -m api.login`, as processes of their own."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from inference.settings import Settings
from tests.support.app import LiveApp

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTMILL_")}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def live(tmp_path_factory) -> Iterator[LiveApp]:
    app = LiveApp(tmp_path_factory.mktemp("live") / "data", {})
    app.start()
    try:
        yield app
    finally:
        app.stop()
        app._process.stdout.close()


def test_help_explains_every_setting():
    text = run("api", "--help").stdout
    for name, field in Settings.model_fields.items():
        assert f"DRAFTMILL_{name.upper()}" in text
        assert field.description in text


def test_a_taken_port_is_said_with_the_cure_and_leaves_nothing_behind(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = run("api", "--port", str(port), "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr
    assert "DRAFTMILL_PORT" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"DRAFTMILL_PORT": "many"}, "DRAFTMILL_PORT"),
        ({"DRAFTMILL_ADMIN_TOKEN": "short"}, "DRAFTMILL_ADMIN_TOKEN"),
        ({"DRAFTMILL_HOST": "203.0.113.1"}, "DRAFTMILL_HOST"),
    ],
)
def test_a_bad_setting_is_named(tmp_path, environment, said):
    done = run("api", "--data-dir", str(tmp_path / "data"), **({"DRAFTMILL_PORT": "0"} | environment))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_app_serves_with_its_worker_and_one_may_log_in_by_the_printed_link_once(live):
    ready = httpx.get(f"{live.url}/readyz").json()
    assert ready == {"status": "ready", "checks": {"database": True, "worker": True}}
    code = live.login_url.partition("code=")[2]
    with httpx.Client(base_url=live.url) as browser:
        assert browser.post("/login", data={"code": code}).status_code == 303
        assert browser.get("/api/v1/me").json()["name"] == "admin"
        assert browser.post("/login", data={"code": code}).status_code == 401


def test_what_is_written_belongs_to_its_owner_alone(live):
    assert stat.S_IMODE(live.data_dir.stat().st_mode) == 0o700
    for path in live.data_dir.rglob("*"):
        if path.name != "app.log":  # the test's own
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_api_login_makes_a_user_and_a_link_beside_the_running_app(live):
    done = run("api.login", "--name", "Ada", "--role", "operator", "--url", live.url, "--data-dir", str(live.data_dir))
    link = done.stdout.strip()
    assert re.fullmatch(re.escape(live.url) + r"/login\?code=[\w-]{40,}", link), done.stderr
    with httpx.Client(base_url=live.url) as browser:
        assert browser.post("/login", data={"code": link.partition("code=")[2]}).status_code == 303
        assert browser.get("/api/v1/me").json()["role"] == "operator"
    token = run("api.login", "--name", "Ada", "--token", "--data-dir", str(live.data_dir)).stdout.strip()
    me = httpx.get(f"{live.url}/api/v1/me", headers={"Authorization": f"Bearer {token}"}).json()
    assert (me["name"], me["role"]) == ("Ada", "operator")


def test_a_worker_that_dies_is_started_again(live):
    def worker_pid() -> int:
        live.wait_for(lambda: httpx.get(f"{live.url}/readyz", timeout=10).status_code == 200, 60, "a worker")
        return int((live.data_dir / "worker.lock").read_text())

    first = worker_pid()
    os.kill(first, signal.SIGKILL)
    live.wait_for(lambda: httpx.get(f"{live.url}/readyz", timeout=10).status_code == 503, 30, "the loss to be seen")
    assert worker_pid() != first


def test_the_first_token_is_printed_once_and_is_nowhere_in_the_data(tmp_path):
    data = tmp_path / "data"
    first = start_and_stop(data)
    token = re.search(r"Token of admin .*: (dm_[\w-]+)", first)
    assert token is not None
    assert "Token of admin" not in start_and_stop(data)
    for path in data.rglob("*"):
        if path.is_file():
            assert token[1].encode() not in path.read_bytes(), path


def start_and_stop(data: Path) -> str:
    """What a start prints, up to where it listens; then SIGTERM, and a clean end."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTMILL_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "api", "--port", "0", "--data-dir", str(data)],
        cwd=ROOT, env=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with process:
        printed = ""
        for line in process.stdout:
            printed += line
            if "Draftmill is at http://127.0.0.1:" in line:
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) in {0, -signal.SIGTERM}
    return printed
