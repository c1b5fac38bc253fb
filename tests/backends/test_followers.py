"""A further node of a server: it answers no requests, so its process and its own health check are all that is asked of it."""

from pathlib import Path

import pytest

from db.errors import Conflict
from tests.backends.conftest import Lab

NODE = {"tp_size": 2, "nnodes": 2, "node_rank": 1, "dist_init_addr": "10.255.255.1:25000"}


def log_of(lab: Lab, backend_id: int) -> str:
    return Path(lab.start_row(backend_id).log_path or "").read_text()


def test_a_follower_is_ready_by_its_health_check_and_is_asked_for_nothing_else(lab: Lab, tmp_path: Path) -> None:
    sick = tmp_path / "sick"
    lab.behave(absent=["/ready", "/v1/loads"], ignore_term=True, unhealthy=str(sick))
    one = lab.create(**NODE)
    with lab.supervising():
        lab.ask(one, "start")
        row = lab.wait(one, "ready")
        assert "node 0" in row.message
        with pytest.raises(Conflict):
            lab.ask(one, "probe")
        checks = log_of(lab, one).count("GET /health")
        lab.wait(one, lambda _: log_of(lab, one).count("GET /health") > checks + 5)
        for path in ("/generate", "/model_info", "/server_info", "/v1/loads"):
            assert path not in log_of(lab, one)
        sick.touch()
        assert "Nothing is killed" in lab.wait(one, "unresponsive").message
        sick.unlink()
        lab.wait(one, "ready")
        lab.ask(one, "stop")
        row = lab.wait(one, "stopped")
    assert "SIGKILL" in row.message, "it ignores SIGTERM for as long as node 0 lives"
    assert all(state != "draining" for state, _ in lab.seen), "it has no requests of its own"
    assert lab.tree(one) == []
