"""What SQLite reads for a list: never all samples, never another run's."""

from collections.abc import Iterator

import pytest
from sqlalchemy import event, insert
from sqlalchemy.engine import Connection

from db.engine import Database
from db.filters import parse_query
from db.queries import conditions
from db.queries.samples import count_samples, iter_sample_ids, list_samples, neighbours
from db.tables import Sample
from tests.db.rows import World, build_world

QUERIES = (
    *(
        "",
        "state=done",
        "state=done,failed",
        "-state=done",
        "category=a",
        "flag=x",
        "-flag=x",
        "flag=none",
        "flag=x,none",
    ),
    *(
        "tag=wrong",
        "-tag=wrong",
        "tag=none",
        "verdict=good",
        "-verdict=good",
        "verdict=none",
        "reviewer=ann",
        "-reviewer=ann",
    ),
    *(
        "reviewer=none",
        "finish=stop",
        "finish=none",
        "kind=content",
        "len=1..5",
        "len=1..",
        "-len=1..5",
        "turn=0",
        "q=zz",
    ),
    *("source_id=s1", "attempts=1..", "state=done&flag=x&len=..9"),
)


@pytest.fixture
def world(sqlite_database: Database) -> World:
    world = build_world(sqlite_database)
    with sqlite_database.write() as s:
        for run_id in (world.other_run_id, world.run_id):
            values = {
                "run_id": run_id,
                "prompt_id": world.prompt_id,
                "state": "done",
                "category": "a",
                "completion_tokens": 3,
            }
            rows = [{**values, "repeat": n, "source_id": f"s{n}"} for n in range(300)]
            s.execute(insert(Sample), rows)
    return world


@pytest.fixture(params=["rare", "common"])
def spread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways a condition can be met, whatever the number of rows."""
    monkeypatch.setattr(conditions, "_RARE", 5_000 if request.param == "rare" else -1)
    return request.param


@pytest.mark.parametrize("sort", ["id", "-len", "updated"])
def test_no_list_count_or_walk_scans_all_samples(sqlite_database: Database, world: World, spread: str, sort: str):
    statements: list[tuple[str, object]] = []

    @event.listens_for(sqlite_database.engine, "before_cursor_execute")
    def note(_c: Connection, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        if statement.startswith("SELECT"):
            statements.append((statement, parameters))

    with sqlite_database.read() as s:
        for query in QUERIES:
            flt = parse_query([*(tuple(item.split("=", 1)) for item in query.split("&") if item), ("sort", sort)])
            list_samples(s, world.run_id, flt, limit=5)
            count_samples(s, world.run_id, flt)
            list(iter_sample_ids(s, world.run_id, flt))
            neighbours(s, world.run_id, s.get_one(Sample, 450), flt)
    event.remove(sqlite_database.engine, "before_cursor_execute", note)

    assert len(statements) > 5 * len(QUERIES)
    with sqlite_database.engine.connect() as connection:
        for statement, parameters in dict(statements).items():
            steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            for step in steps:
                assert not step.startswith(("SCAN samples", "SCAN sample_", "SCAN reviews")), (step, statement)
                if step.startswith("SEARCH samples"):
                    assert any(key in step for key in ("(run_id=?", "(rowid=?", "(rowid>?", "(rowid<?")), (
                        step,
                        statement,
                    )
                    assert "rowid>" not in step, (step, statement)
                    assert "rowid<" not in step, (step, statement)
