"""A block of ports: bound before the model is loaded, whole, in nobody else's way, and its holder named."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier, Lock

import pytest
from sqlalchemy.exc import IntegrityError
from sqlmodel import select

from db.engine import Database
from db.errors import Invalid, Unavailable
from db.tables import Backend, BackendPort, BackendStart
from inference.backends.launch import ports
from inference.backends.launch.ports import INNER, PortBlock, check_meeting_port, meeting_ports, pick_block, reserve
from inference.backends.launch.spec import LaunchSpec


@contextmanager
def held(port: int = 0, host: str = "127.0.0.1") -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind((host, port))
        taken.listen()
        yield taken.getsockname()[1]


def spec(**fields: object) -> LaunchSpec:
    return LaunchSpec(model_path="/m", **fields)


def test_a_port_that_something_holds_is_not_free_and_its_holder_is_named() -> None:
    with held() as port:
        assert not ports.is_free(port)
        assert not ports.is_free(port, ""), "held on one address is not free on every one"
        assert f"pid {os.getpid()}" in ports.holder(port)
    assert ports.is_free(port)


def test_the_holder_is_named_where_it_is_another_process() -> None:
    program = (
        "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert not ports.is_free(port)
        assert f"pid {other.pid}" in ports.holder(port)
        with pytest.raises(Invalid) as refused:
            check_meeting_port(f"127.0.0.1:{port}")
        assert refused.value.code == "meeting_port_taken"
        assert refused.value.field == "launch.dist_init_addr"
        assert f"pid {other.pid}" in str(refused.value)
        other.communicate()


def test_no_port_is_given_twice_and_none_left_is_an_error_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: set[int] = set()
    for _ in range(5):
        claims = {port for port, _ in pick_block(taken, inner=False).claims()}
        assert len(claims) == 2
        assert claims.isdisjoint(taken)
        assert all(ports.FIRST <= port < ports.LAST for port in claims)
        taken |= claims
    monkeypatch.setattr(ports, "is_free", lambda *_: False)
    with pytest.raises(Unavailable) as error:
        pick_block((), inner=False)
    assert error.value.code == "no_free_port"


def test_the_ports_of_attention_data_parallelism_are_in_the_block_and_below_the_ephemeral_range() -> None:
    block = reserve(spec(tp_size=2, attn_dp_size=2), ())
    assert block.inner == tuple(block.http + step for step in INNER)
    assert {block.http + step for step in range(233, 240)} < set(block.inner)
    assert max(port for port, _ in block.claims()) < ports.LAST
    assert [purpose for _, purpose in block.claims()] == ["http", "nccl", *["inner"] * len(INNER)]
    assert not reserve(spec(tp_size=2), ()).inner


def test_one_servers_http_port_never_falls_into_anothers_block() -> None:
    taken: set[int] = set()
    for turn in range(12):
        claims = [port for port, _ in pick_block(taken, inner=turn % 2 == 0).claims()]
        assert taken.isdisjoint(claims)
        assert len(set(claims)) == len(claims)
        taken |= set(claims)


@pytest.mark.parametrize("step", [0, 1, 13, 233, 239])
def test_a_neighbour_on_any_port_of_a_block_rules_the_block_out(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(ports, "LAST", ports.FIRST + max(INNER) + 2)  # one block, or none
    only = pick_block((), inner=True)
    with held(only.http + step), pytest.raises(Unavailable, match="block of ports"):
        pick_block((), inner=True)
    with pytest.raises(Unavailable):
        pick_block({only.http + step}, inner=True)
    assert pick_block((), inner=True) == only


def test_two_starts_at_the_same_moment_never_share_a_port(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LAST", ports.FIRST + 5)  # two pairs: both starts want the same ones
    with database.write() as s:
        backends = [Backend(name=name, kind="managed") for name in ("a", "b")]
        s.add_all(backends)
        s.flush()
        starts = [BackendStart(backend_id=backend.id or 0, number=1) for backend in backends]
        s.add_all(starts)
        s.flush()
        ids = [start.id or 0 for start in starts]
    moment, bind_once = Barrier(2), Lock()

    def start(start_id: int) -> PortBlock:
        moment.wait()
        while True:
            with database.read() as s:
                taken = set(s.exec(select(BackendPort.port)))
            with bind_once:
                block = pick_block(taken, inner=False)
            try:
                with database.write() as s:
                    for port, purpose in block.claims():
                        s.add(BackendPort(port=port, start_id=start_id, purpose=purpose))
            except IntegrityError:
                continue
            return block

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(start, ids)
    assert {port for port, _ in one.claims()}.isdisjoint(port for port, _ in other.claims())


def test_replicas_choose_where_their_ranks_meet_themselves() -> None:
    assert reserve(spec(dp_size=2), ()).nccl is None
    assert reserve(spec(dp_size=1), ()).nccl is not None


def test_the_meeting_port_is_checked_where_it_is_listened_at_and_nowhere_else() -> None:
    with held(host="0.0.0.0") as port:  # noqa: S104  (a stranger that listens everywhere)
        nodes = {"nnodes": 2, "tp_size": 2, "dist_init_addr": f"127.0.0.1:{port}"}
        with pytest.raises(Invalid, match=f"pid {os.getpid()}"):
            reserve(spec(**nodes, node_rank=0), ())
        assert reserve(spec(**nodes, node_rank=1), ()).meeting == ()
    assert reserve(spec(**nodes, node_rank=0), ()).meeting == (port,)
    with pytest.raises(Invalid, match="another backend of Draftmill"):
        reserve(spec(**nodes, node_rank=0), {port})


def test_attention_data_parallelism_of_several_nodes_listens_beside_the_meeting_port() -> None:
    assert meeting_ports("10.0.0.1:25000", inner=True) == (25000, *range(25001, 25007), 25013)
    with held() as port:
        block_of = {"nnodes": 2, "node_rank": 0, "tp_size": 2, "attn_dp_size": 2}
        with pytest.raises(Invalid, match=f"port {port} of this machine"):
            reserve(spec(**block_of, dist_init_addr=f"h:{port - 3}"), ())


@pytest.mark.parametrize("address", ["", "host", "host:", "host:0", "host:70000", "::1:5000", "tcp://h:1", "h:65530"])
def test_an_address_without_a_port_for_all_that_listens_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="must be host:port"):
        meeting_ports(address, inner=True)
    assert meeting_ports("[::1]:5000", inner=False) == (5000,)
