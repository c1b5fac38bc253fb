"""`make demo`: the main job end to end over REST, as a user's script would do it, and then a page to review.

Starts the app, uploads the prompt set, starts a real SGLang server, launches a run, and prints a log-in URL. What an earlier
demo made is found again. Ctrl-C stops the server and the app.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from inference.settings import Settings, cache_dir

HERE = Path(__file__).parent
MODEL = cache_dir() / "models" / "demo"
BACKEND = "demo"
PROMPT_SET = "Demo prompts"
RUN = "First light"
TAGS = ("wrong answer", "wrong tool arguments", "loop", "off topic", "thin reasoning")
CONCURRENCY = 24
APP_START_S = 60
SERVER_START_S = 300
REPORT_EVERY_S = 10.0


class DemoError(Exception):
    """What did not work and what to do."""


def say(text: str) -> None:
    """One line of progress, with the seconds since the start."""
    print(f"[demo {time.monotonic() - STARTED:4.0f} s] {text}", flush=True)


STARTED = time.monotonic()


class App:
    """The app as a child process, and a REST client that holds its token."""

    def __init__(self, settings: Settings) -> None:
        self._data_dir = settings.data_dir
        self._data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        token = settings.admin_token.get_secret_value() if settings.admin_token else _kept_token(self._data_dir)
        self.url = f"http://{settings.host}:{settings.port}"
        log = self._data_dir / "app.log"
        self.log_path = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "api", "--print-login-link"],
                env=os.environ | {"DRAFTMILL_ADMIN_TOKEN": token, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,  # Ctrl-C reaches this script alone; it ends things in order
            )
        self.client = httpx.Client(
            base_url=f"{self.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False
        )
        self.login_url = ""

    def wait_ready(self) -> None:
        """Until the app says where it listens, with the one-time link.

        Raises:
            DemoError: it ended instead, with what it said.
        """
        assert self._process.stdout is not None  # noqa: S101  (asked for above)
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line.strip())
            if "/login?code=" in line:
                self.login_url = line[line.index("http") :].strip()
                self.url = self.login_url.split("/login", maxsplit=1)[0]
                break
        else:
            tail = self.log_path.read_text(errors="replace").strip().splitlines()[-5:]
            raise DemoError("the app did not start: " + " / ".join([*said, *tail]))
        deadline = time.monotonic() + APP_START_S
        while httpx.get(f"{self.url}/readyz", trust_env=False, timeout=10).status_code != httpx.codes.OK:
            if time.monotonic() > deadline:
                raise DemoError(f"the app is up but not ready after {APP_START_S} s; its log is {self.log_path}")
            time.sleep(0.2)

    def alive(self) -> bool:
        """Whether the app still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the app in order."""
        if self.alive():
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
        if self.alive():
            self._process.kill()

    def get(self, path: str, **query: Any) -> Any:
        """GET one resource."""
        return self._answer(self.client.get(path, params=query))

    def post(self, path: str, body: Any = None) -> Any:
        """POST JSON."""
        return self._answer(self.client.post(path, json=body))

    def upload(self, name: str, path: Path) -> Any:
        """POST a prompt file as it is."""
        with path.open("rb") as file:
            return self._answer(
                self.client.post(
                    "/prompt-sets",
                    params={"name": name, "file_name": path.name},
                    content=iter(lambda: file.read(65_536), b""),
                    headers={"Content-Type": "application/x-ndjson"},
                )
            )

    def _answer(self, response: httpx.Response) -> Any:
        if response.is_error:
            try:
                detail = response.json().get("detail", response.text)
            except ValueError:
                detail = response.text[:500]
            raise DemoError(f"{response.request.method} {response.request.url.path}: {response.status_code}, {detail}")
        return response.json()


def _kept_token(data_dir: Path) -> str:
    """The demo's admin token, made once and kept beside its data, for its owner alone."""
    path = data_dir / "demo-token"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    return path.read_text().strip()


def find(app: App, path: str, name: str) -> Any | None:
    """The newest thing of that name, or None."""
    after: str | None = None
    while True:
        page = app.get(path, limit=200, **({"after": after} if after else {}))
        for item in page["items"]:
            if item["name"] == name:
                return item
        after = page["next"]
        if after is None:
            return None


def prompt_set(app: App) -> Any:
    """The demo's prompts, uploaded unless they are there."""
    there = find(app, "/prompt-sets", PROMPT_SET)
    if there is not None and there["state"] == "ready":
        say(f"prompts: {there['accepted']} are here already")
        return there
    made = app.upload(PROMPT_SET, HERE / "prompts.jsonl")
    say(f"prompts: {made['accepted']} taken, {made['rejected']} refused, in {len(made['categories'])} categories")
    return made


def tags(app: App) -> None:
    """A few tags with number keys, so that the first sample can be tagged at once."""
    there = {tag["name"] for tag in app.get("/tags")["items"]}
    for name in TAGS:
        if name not in there:
            app.post("/tags", {"name": name})


def backend(app: App) -> Any:
    """A ready SGLang server on the demo checkpoint."""
    there = find(app, "/backends", BACKEND)
    if there is None:
        launch = {"model_path": str(MODEL), "device": "cpu"}
        if (cache_dir() / "engine" / ".draftmill-engine").read_text().startswith("cuda"):
            launch = {"model_path": str(MODEL)}
        there = app.post("/backends", {"name": BACKEND, "kind": "managed", "launch": launch})
    if "start" in there["allowed"]:
        app.post(f"/backends/{there['id']}/start")
    shown, deadline = "", time.monotonic() + SERVER_START_S
    while (now := app.get(f"/backends/{there['id']}"))["observed_state"] != "ready":
        if now["message"] != shown:
            shown = now["message"]
            say(f"SGLang: {shown}")
        if now["observed_state"] == "failed" or time.monotonic() > deadline:
            error = now["error"] or {"summary": now["message"], "cure": "", "lines": []}
            raise DemoError(
                "\n    ".join(["SGLang did not start: " + error["summary"], error["cure"], *error["lines"][-8:]])
            )
        time.sleep(0.5)
    say(f"SGLang {now['version']} is ready with {Path(str(now['model'])).name} at {now['url']}")
    return now


def run(app: App, prompts: Any, server: Any) -> Any:
    """The demo's run, launched unless it is there; one that was cut short goes on by itself."""
    there = find(app, "/runs", RUN)
    if there is not None:
        say(f"run: {RUN!r} is here already, {there['state']}")
        return there
    made = app.post(
        "/runs",
        {"name": RUN, "prompt_set_id": prompts["id"], "backend_ids": [server["id"]], "concurrency": CONCURRENCY},
    )
    say("run: launched")
    return made


def watch(app: App, run_id: int) -> None:
    """Tell how the run goes until it ends, and then keep the app up until Ctrl-C."""
    last, shown = 0.0, ""
    finished = False
    while app.alive():
        if not finished and time.monotonic() - last >= REPORT_EVERY_S:
            last = time.monotonic()
            now = app.get(f"/runs/{run_id}")
            counts, progress = now["counts"], now["progress"]
            total = sum(value for name, value in counts.items() if name != "flagged")
            speed = f", {progress['tokens_per_s']:.0f} tokens/s" if progress["tokens_per_s"] else ""
            left = f", about {progress['eta_s']:.0f} s left" if progress["eta_s"] else ""
            why = f" ({now['reason']})" if now["reason"] else ""
            line = f"run: {now['state']}{why}, {counts['done']} of {total} done, {counts['flagged']} flagged"
            finished = now["state"] in {"completed", "completed_with_failures", "failed", "cancelled", "paused"}
            if line != shown:
                shown = line
                say(line + ("" if finished else speed + left))
            if finished:
                say("the page stays up; Ctrl-C stops SGLang and the app")
        time.sleep(0.5)
    raise DemoError(f"the app ended by itself; its log is {app.log_path}")


def stop_server(app: App) -> None:
    """Ask for the SGLang server's end and wait for the proof."""
    with contextlib.suppress(DemoError, httpx.HTTPError):
        there = find(app, "/backends", BACKEND)
        if there is None or there["observed_state"] in {"stopped", "failed"}:
            return
        say("stopping SGLang …")
        app.post(f"/backends/{there['id']}/stop")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            now = app.get(f"/backends/{there['id']}")
            if now["observed_state"] in {"stopped", "failed"}:
                say(f"SGLang: {now['message']}")
                return
            time.sleep(0.3)


def main() -> int:
    """Run the demo; 0 after Ctrl-C, 1 where something did not work."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    os.umask(0o077)  # the log and the data are their owner's alone
    settings = Settings()
    app = App(settings)
    try:
        say("starting the app …")
        app.wait_ready()
        say(f"app: {app.url}")
        prompts = prompt_set(app)
        tags(app)
        server = backend(app)
        launched = run(app, prompts, server)
        page = f"{app.login_url}&next=/runs/{launched['id']}"
        print(f"\n  Open this (it logs you in once, within a day):\n\n    {page}\n", flush=True)
        watch(app, launched["id"])
    except KeyboardInterrupt:
        print(flush=True)
        stop_server(app)
        say("your data stays in " + str(settings.data_dir.absolute()))
    except (DemoError, httpx.HTTPError) as error:
        say(f"failed: {error}")
        return 1
    finally:
        app.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
