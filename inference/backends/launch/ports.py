"""Free ports, checked by binding: SGLang finds out that its port is taken only after the whole model is loaded."""

import random
import socket
from collections.abc import Collection

import psutil

from db.errors import Unavailable

LOOPBACK = "127.0.0.1"
FIRST, LAST = 30_100, 32_700
"""Below Linux's ephemeral range (32768), so that no outgoing connection sits on a port between our check and the bind."""


def is_free(port: int) -> bool:
    """Whether a server could listen on loopback at this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does: TIME_WAIT is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        probe.listen(1)
        return True


def pick_port(taken: Collection[int]) -> int:
    """A free port that no other backend holds.

    Raises:
        Unavailable: `no_free_port`.
    """
    candidates = [port for port in range(FIRST, LAST, 2) if port not in taken]
    random.shuffle(candidates)
    for port in candidates:
        if is_free(port):
            return port
    raise Unavailable("no_free_port", f"No port between {FIRST} and {LAST} is free on {LOOPBACK}: end what holds them.")


def holder(port: int) -> str:
    """Who listens on the port, as `name (pid n)`; `another process` where the system does not say."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return "another process"
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            if connection.pid is None:
                break
            try:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
            except psutil.Error:
                return f"pid {connection.pid}"
    return "another process"
