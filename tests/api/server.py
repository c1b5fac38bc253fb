"""The app behind a real socket, in a thread: for what a test client cannot show (streams, disconnects, shutdown)."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from api.__main__ import Server


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[tuple[str, Server]]:
    """Serve on a free loopback port; gives the base URL and the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=5)
        ready = threading.Event()
        server = Server(config, app, ready.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        if not ready.wait(60):
            raise AssertionError("the server did not start")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive(), "the server did not stop"
