"""Where the nodes of one server meet: reading `dist_init_addr`, and the ports that stand beside it."""

import re

BESIDE = (*range(1, 7), 13)
"""What attention data parallelism adds to the meeting port: the queues between its processes, and the handshake of its nodes
(in SGLang's `PortArgs`, and `DP_ATTENTION_HANDSHAKE_PORT_DELTA`)."""

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_MAX_PORT = 65_535


def meeting_ports(dist_init_addr: str, *, inner: bool) -> tuple[int, ...]:
    """The ports that node 0 listens at because of `dist_init_addr`, the meeting port first.

    Args:
        dist_init_addr: host:port of node 0, an IPv6 address in brackets.
        inner: whether attention data parallelism listens beside it.

    Raises:
        ValueError: it is no host:port, or leaves no room for the ports beside it.
    """
    found = _ADDRESS.fullmatch(dist_init_addr)
    port = int(found[1]) if found is not None else 0
    highest = _MAX_PORT - (max(BESIDE) if inner else 0)
    if not 0 < port <= highest:
        raise ValueError(
            f"dist_init_addr {dist_init_addr!r} must be host:port of node 0, as 10.0.0.1:25000, with a port up to {highest}"
        )
    return (port, *(port + step for step in BESIDE)) if inner else (port,)
