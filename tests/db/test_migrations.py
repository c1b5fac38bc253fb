"""The schema: made by migrations alone, equal to the models, and safe for the data in it."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import CommandLine
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlmodel import SQLModel

import db.tables  # noqa: F401  (fills the metadata)
from db.engine import Database
from db.errors import Unavailable
from db.migrate import differences, downgrade, is_current, main, migrating, upgrade
from tests.support.databases import PostgresCluster

FIRST = "0001"
ROOT = Path(__file__).parents[2]


Stored = dict[str, list[dict[str, object]]]


def populate(database: Database) -> Stored:
    """Two rows in every table that is there, every reference set; returns all that is stored."""
    present = columns_of(database)
    with database.engine.connect().execution_options(draftmill_write=True) as connection, connection.begin():
        for table in SQLModel.metadata.sorted_tables:
            columns = [c for c in table.columns if c.name in present.get(table.name, ())]
            if columns:  # a table of these columns alone: the models' own defaults know columns that are not there yet
                there = sa.table(table.name, *(sa.column(c.name, c.type) for c in columns))
                connection.execute(there.insert(), [{c.name: value_for(c, n) for c in columns} for n in (1, 2)])
    return contents(database, present)


def columns_of(database: Database) -> dict[str, set[str]]:
    """The columns there are by table: an older revision has fewer than the models."""
    inspector = sa.inspect(database.engine)
    return {name: {c["name"] for c in inspector.get_columns(name)} for name in inspector.get_table_names()}


def value_for(column: sa.Column, n: int) -> object:
    if column.foreign_keys or column.name == "id":
        return n
    kind = column.type.impl if isinstance(column.type, sa.TypeDecorator) else column.type
    made = {
        sa.Boolean: n == 1,
        sa.Integer: 200_000 + n,
        sa.Float: n + 0.5,
        sa.String: f"{column.name[:8]} {n} é%"[: getattr(kind, "length", None) or 99],
        sa.LargeBinary: bytes([n, 0, 255]),
        sa.JSON: {"n": n, "text": "日本", "none": None},
        sa.DateTime: datetime(2026, 2, 28, 12, 30, n, 5, tzinfo=UTC),
    }
    return next(value for known, value in made.items() if isinstance(kind, known))


def contents(database: Database, columns: dict[str, set[str]] | None = None) -> Stored:
    """All rows by table, in the columns named (or all there are)."""
    wanted = columns or columns_of(database)
    found: Stored = {}
    with database.engine.connect() as connection:
        for table in SQLModel.metadata.sorted_tables:
            if table.name in wanted:
                chosen = [c for c in table.columns if c.name in wanted[table.name]]
                found[table.name] = sorted(
                    (dict(row._mapping) for row in connection.execute(sa.select(*chosen))), key=repr
                )
    return found


def broken_references(database: Database) -> list[object]:
    with database.engine.connect() as connection:
        if database.is_sqlite:
            return list(connection.exec_driver_sql("PRAGMA foreign_key_check"))
        unchecked = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND NOT convalidated"
        return list(connection.exec_driver_sql(unchecked))


def foreign_keys(database: Database) -> dict[str, set[tuple]]:
    inspector = sa.inspect(database.engine)
    return {
        name: {
            (tuple(key["constrained_columns"]), key["referred_table"], key["options"].get("ondelete"))
            for key in inspector.get_foreign_keys(name)
        }
        for name in SQLModel.metadata.tables
    }


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path):
    """A database in which nothing has been migrated yet."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path / 'empty.sqlite'}")
        yield database
        database.dispose()
    else:
        cluster: PostgresCluster = request.getfixturevalue("postgres_server")
        name = cluster.create()
        database = Database(cluster.url(name))
        yield database
        database.dispose()
        cluster.drop(name)


def test_models_and_migrations_agree(database: Database):
    assert is_current(database)
    assert differences(database) == []
    assert foreign_keys(database)["samples"] == {(("run_id",), "runs", "CASCADE"), (("prompt_id",), "prompts", None)}


def test_a_populated_database_loses_nothing_from_the_first_revision_to_the_last(empty_database: Database):
    upgrade(empty_database, FIRST)
    columns = columns_of(empty_database)
    before = populate(empty_database)
    assert all(len(rows) == 2 for rows in before.values())
    upgrade(empty_database)
    assert is_current(empty_database)
    assert contents(empty_database, columns) == before
    assert broken_references(empty_database) == []


def test_rebuilding_a_parent_table_keeps_its_children(database: Database):
    """What a later revision will do to `runs`, on SQLite by copying the table: its children must stay."""
    before, keys = populate(database), foreign_keys(database)
    with migrating(database) as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("runs", recreate="always" if database.is_sqlite else "auto") as batch:
            batch.add_column(sa.Column("added", sa.Integer(), nullable=True))
        with operations.batch_alter_table("runs", recreate="always" if database.is_sqlite else "auto") as batch:
            batch.drop_column("added")
    assert contents(database) == before
    assert foreign_keys(database) == keys
    assert broken_references(database) == []
    assert differences(database) == []


def test_a_migration_that_breaks_a_reference_changes_nothing(sqlite_database: Database):
    before = populate(sqlite_database)
    with pytest.raises(Unavailable) as caught, migrating(sqlite_database) as connection:
        connection.exec_driver_sql("DELETE FROM runs WHERE id = 1")
    assert caught.value.code == "migration_broken_references"
    assert contents(sqlite_database) == before


def test_foreign_keys_are_enforced_again_after_migrating(database: Database):
    populate(database)
    upgrade(database)
    downgrade(database, FIRST)
    with database.write() as s:
        s.connection().exec_driver_sql("DELETE FROM runs WHERE id = 1")
    left = contents(database)
    assert len(left["samples"]) == len(left["sample_flags"]) == len(left["reviews"]) == 1
    with pytest.raises(sa.exc.IntegrityError), database.write() as s:
        s.connection().exec_driver_sql("INSERT INTO run_events (run_id, at, kind, message, detail) "
                                       "VALUES (99, '2026-01-01', 'x', '', '{}')")  # fmt: skip


def test_the_whole_way_down_and_up_again(database: Database):
    populate(database)
    downgrade(database, "base")
    assert set(sa.inspect(database.engine).get_table_names()) == {"alembic_version"}
    upgrade(database)
    assert differences(database) == []
    assert all(rows == [] for rows in contents(database).values())


def test_processes_that_start_at_once_migrate_once(empty_database: Database):
    url = empty_database.url.render_as_string(hide_password=False)
    program = (
        "import sys; from db.engine import Database; from db.migrate import upgrade; upgrade(Database(sys.argv[1]))"
    )
    starts = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", program, url], cwd=ROOT, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ends = [(start.communicate()[1], start.returncode) for start in starts]
    assert [code for _, code in ends] == [0, 0, 0], ends
    assert is_current(empty_database)
    assert differences(empty_database) == []


def test_a_database_of_a_newer_version_is_refused_in_words(sqlite_database: Database):
    with sqlite_database.write() as s:
        s.connection().exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(Unavailable) as caught:
        upgrade(sqlite_database)
    assert caught.value.code == "database_newer"
    assert "9999" in caught.value.message


def test_the_command_line_works_on_the_database_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"sqlite:///{tmp_path / 'cli.sqlite'}"
    monkeypatch.setenv("DRAFTMILL_DATABASE_URL", url)
    for arguments in (["upgrade", "head"], ["check"]):
        CommandLine().main(["-c", str(ROOT / "alembic.ini"), *arguments])
    database = Database(url)
    assert is_current(database)
    database.dispose()


def test_the_check_names_what_no_revision_makes(capsys: pytest.CaptureFixture[str]):
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""
    forgotten = sa.Table("forgotten", SQLModel.metadata, sa.Column("id", sa.Integer, primary_key=True))
    try:
        assert main(["--check"]) == 1
    finally:
        SQLModel.metadata.remove(forgotten)
    assert "forgotten" in capsys.readouterr().out


def test_a_deleted_runs_number_is_never_given_again(database: Database):
    populate(database)
    with database.write() as s:
        connection = s.connection()
        runs = SQLModel.metadata.tables["runs"]
        new = {c.name: value_for(c, 1) for c in runs.columns if c.name != "id"}
        if not database.is_sqlite:  # rows above were given ids of their own, past the sequence
            connection.exec_driver_sql("SELECT setval('runs_id_seq', 2)")
        first = connection.execute(runs.insert().values(**new)).inserted_primary_key[0]
        connection.execute(runs.delete().where(runs.c.id == first))
        second = connection.execute(runs.insert().values(**new)).inserted_primary_key[0]
    assert second > first
