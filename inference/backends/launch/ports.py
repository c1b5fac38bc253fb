"""The ports of one server: picked and bound before its model is loaded, since SGLang finds out only afterwards that one is taken.

A server has more than its HTTP port. The ranks meet at another (`--nccl-port`), and attention data parallelism binds eight
more at fixed distances from the HTTP port, so a block is picked as a whole and none of its ports may lie in another's.
"""

import random
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import psutil

from db.errors import Invalid, Unavailable
from inference.backends.launch.meeting import meeting_ports
from inference.backends.launch.spec import LaunchSpec

LOOPBACK = "127.0.0.1"
FIRST, LAST = 30_100, 32_700
"""Below Linux's ephemeral range (32768), so that no outgoing connection sits on a port between our check and the bind."""

INNER = (13, *range(233, 240))
"""What attention data parallelism on one node adds to the HTTP port: the handshake, then the queues between its processes
(SGLang's `DP_ATTENTION_HANDSHAKE_PORT_DELTA`, and `ZMQ_TCP_PORT_DELTA` with the six ports after it)."""


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports of one start, all of them on this machine."""

    http: int
    nccl: int | None
    """Where the ranks meet; None: SGLang must choose, one for each of several replicas"""
    inner: tuple[int, ...] = ()
    """Between the ranks of attention data parallelism"""
    meeting: tuple[int, ...] = ()
    """Of `dist_init_addr`, where this node is the one that listens there"""

    def claims(self) -> list[tuple[int, str]]:
        """(port, purpose) of each, to be reserved: http, nccl, inner or meeting."""
        nccl = [] if self.nccl is None else [(self.nccl, "nccl")]
        inner = [(port, "inner") for port in self.inner]
        return [(self.http, "http"), *nccl, *inner, *((port, "meeting") for port in self.meeting)]


def reserve(spec: LaunchSpec, taken: Collection[int]) -> PortBlock:
    """The ports that a server of this spec needs on this machine, checked to be free.

    Raises:
        Invalid: `meeting_port_taken`, where this is node 0 and something holds its meeting port.
        Unavailable: `no_free_port`.
    """
    address = spec.dist_init_addr
    meeting = (
        () if address is None or spec.follower else check_meeting_port(address, inner=spec.attention_dp, taken=taken)
    )
    return pick_block(
        taken,
        inner=spec.attention_dp and address is None,
        # several replicas each need a meeting of their own: SGLang binds a named port for the first and fails at the next
        nccl=(spec.dp_size or 1) == 1,
        meeting=meeting,
    )


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen at this port now; `host` "" is every address of the machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does: TIME_WAIT is no obstacle
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def pick_block(taken: Collection[int], *, inner: bool, nccl: bool = True, meeting: tuple[int, ...] = ()) -> PortBlock:
    """A block whose every port is free now and claimed by no other.

    Args:
        taken: ports of other starts, and loopback ports of attached servers.
        inner: whether attention data parallelism adds its own (`INNER`).
        nccl: whether the ranks meet at one port that we name.
        meeting: ports that this start takes anyway (`meeting_ports`); the block keeps out of them.

    Raises:
        Unavailable: `no_free_port`.
    """
    held = {*taken, *meeting}
    candidates = list(range(FIRST, LAST - (max(INNER) if inner else 1), 2))
    random.shuffle(candidates)
    for http in candidates:
        block = PortBlock(
            http=http,
            nccl=http + 1 if nccl else None,
            inner=tuple(http + step for step in INNER) if inner else (),
            meeting=meeting,
        )
        ours = [port for port, purpose in block.claims() if purpose != "meeting"]
        if held.isdisjoint(ours) and _all_free(block):
            return block
    what = "a server's block of ports" if inner else "a pair of ports"
    raise Unavailable(
        "no_free_port",
        f"Between {FIRST} and {LAST} {what} is not free on {LOOPBACK}: stop a server, or end what holds them.",
    )


def check_meeting_port(dist_init_addr: str, *, inner: bool = False, taken: Collection[int] = ()) -> tuple[int, ...]:
    """The ports of `dist_init_addr`, known to be free on this machine, which is node 0.

    Raises:
        Invalid: `meeting_port_taken`, with the name of what holds it: SGLang would wait there for ranks that never come.
    """
    ports = meeting_ports(dist_init_addr, inner=inner)
    for port in ports:
        if port in taken:
            reason = "another backend of Draftmill has it"
        elif not is_free(port, ""):  # the store of torch.distributed listens on every address
            reason = f"{holder(port)} holds it"
        else:
            continue
        raise Invalid(
            "meeting_port_taken",
            f"launch.dist_init_addr: port {port} of this machine cannot be used for {dist_init_addr}, {reason}. "
            "Name a free port, the same on every node, or end what holds it.",
            field="launch.dist_init_addr",
        )
    return ports


def holder(port: int) -> str:
    """Who has the port, as `name (pid n)`, a listener before any other; `another process` where the system does not say."""
    try:
        connections = [item for item in psutil.net_connections(kind="tcp") if item.laddr and item.laddr.port == port]
    except psutil.Error:
        return "another process"
    connections.sort(key=lambda item: item.status != psutil.CONN_LISTEN)
    for connection in connections:
        if connection.pid is None:
            continue
        try:
            return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
        except psutil.Error:
            return f"pid {connection.pid}"
    return "another process"


def _all_free(block: PortBlock) -> bool:
    """Each checked where SGLang binds it: HTTP and the queues on loopback, the meeting of the ranks on every address."""
    loopback: Iterable[int] = (block.http, *block.inner)
    return all(map(is_free, loopback)) and (block.nccl is None or is_free(block.nccl, ""))
