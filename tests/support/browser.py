"""A real browser for tests: Debian's Chromium driven by Playwright, and an app served on a port of its own.

Where there is no Chromium the tests are skipped with a loud reason; with `CI=true` that is a failure.
"""

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.support.absent import missing

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def chromium_path() -> str:
    """Where Chromium is.

    Raises:
        pytest.skip.Exception: there is none.
        pytest.fail.Exception: there is none, and this is CI.
    """
    wanted = os.environ.get("DRAFTMILL_CHROMIUM")
    found = wanted if wanted and Path(wanted).exists() else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing("no Chromium (apt install chromium, or DRAFTMILL_CHROMIUM=/path)")
    return found


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """One browser, closed afterwards."""
    path = chromium_path()
    playwright: Playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The app on 127.0.0.1 and a free port, in a thread of this process; yields its base URL."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the app did not start")
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
