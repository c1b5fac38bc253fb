"""What a server's log has said is taken in whole, however much it is and whether or not it goes on."""

from pathlib import Path

from db.engine import Database
from db.tables import Backend
from db.types import now
from inference.backends.host.identity import Identity
from inference.backends.host.process import ServerProcess
from inference.backends.logs.following import LogFollower
from inference.backends.logs.phases import LOADING, PhaseTracker
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Expected
from inference.backends.supervision.life import Life


def life_of(log: Path) -> Life:
    return Life(
        start_id=1,
        number=1,
        port=30_100,
        expected=Expected("marker", "/models/tiny"),
        log=log,
        url="http://127.0.0.1:30100",
        api_key="k" * 48,
        limit_s=None,
        drain_limit_s=1.0,
        gpu_before=None,
        process=ServerProcess.gone(Identity(0, 0.0), "marker"),
        follower=LogFollower(log),
        tracker=PhaseTracker(now()),
        client=SglangClient("http://127.0.0.1:30100"),
    )


def test_the_end_of_a_long_log_that_does_not_go_on_is_taken_in_too(tmp_path: Path) -> None:
    log = tmp_path / "start-1.log"
    noise = b"[2026-11-30 07:03:24] a warning that comes again and again\n"
    with log.open("wb") as file:
        for _ in range(20):
            file.write(noise * (LogFollower.BITE // len(noise)))
        file.write(b"[2026-11-30 07:03:25] Load weight begin. avail mem=70.00 GB\n")
    life = life_of(log)
    looks = 0
    while life.log_grew():
        life.read_log()
        looks += 1
    assert life.tracker.phase.name == LOADING
    assert 1 < looks < 20
    assert not life.log_grew()


def test_a_bar_that_stands_still_shows_what_it_says_now_and_not_its_state_before(tmp_path: Path) -> None:
    log = tmp_path / "start-1.log"
    bar = "Loading safetensors checkpoint shards: {} Completed | {}/4 [{}, 90s/it]"
    drawn = [bar.format("25%", 1, "01:30<04:30"), bar.format("50%", 2, "03:00<03:00")]
    log.write_bytes(b"[2026-11-30 07:03:25] Load weight begin. avail mem=70.00 GB\n")
    life = life_of(log)
    for state, done in zip(drawn, (1, 2), strict=True):
        with log.open("ab") as file:
            file.write(b"\r" + state.encode())  # as tqdm draws: what ends a state comes with the next one
        assert life.log_grew()
        life.read_log()
        assert (life.tracker.phase.done, life.tracker.phase.total) == (done, 4)
    assert life.tracker.phase.left_s == 180


def test_what_is_told_of_a_line_with_a_nul_in_it_can_be_kept(tmp_path: Path, database: Database) -> None:
    log = tmp_path / "start-1.log"
    log.write_bytes(b"OSError: [Errno 28] No space left on device\0: '/home/someone/.cache\0'\n")
    life = life_of(log)
    life.read_log()
    assert life.problem is not None
    with database.write() as s:
        s.add(Backend(name="one", kind="managed", error=life.problem.to_json(), message=life.problem.summary))
