"""The schema, brought up to date.

SQLite rewrites a table to alter it; with foreign keys enforced, dropping the old copy of a parent deletes its children. So
migrations run with enforcement off, inside one transaction, and every reference is checked before it commits.

`python -m db.migrate --check` holds the revisions against the models, on an empty SQLite database of its own.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlmodel import SQLModel

import db.tables  # noqa: F401  (fills the metadata)
from db.engine import Database
from db.errors import Unavailable

_SCRIPTS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x64_6D_69_6C  # any number, the same in every process that migrates


def upgrade(db: Database, revision: str = "head") -> None:
    """Bring the schema to `revision`; nothing happens where it is there already. Safe when several processes start at once.

    Raises:
        Unavailable: the database was made by a newer version, or a migration would leave broken references (nothing changed).
    """
    if revision == "head" and is_current(db):
        return
    config = _config()
    with migrating(db) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def downgrade(db: Database, revision: str) -> None:
    """Take the schema back to an older `revision` (`base` removes all of it, and the data with it).

    Raises:
        Unavailable: a migration would leave broken references (nothing changed).
    """
    config = _config()
    with migrating(db) as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def is_current(db: Database) -> bool:
    """Whether the schema is the one this version works with.

    Raises:
        Unavailable: the database was made by a newer version.
    """
    scripts = ScriptDirectory.from_config(_config())
    with db.engine.connect() as connection:
        present = set(MigrationContext.configure(connection).get_current_heads())
    known = {script.revision for script in scripts.walk_revisions()}
    if unknown := present - known:
        raise Unavailable(
            "database_newer",
            f"The database is at schema {', '.join(sorted(unknown))}, which this version does not know: it was written by a "
            "newer Draftmill. Start that version, or point DRAFTMILL_DATA_DIR or DRAFTMILL_DATABASE_URL elsewhere.",
        )
    return present == set(scripts.get_heads())


def differences(db: Database) -> list[str]:
    """What the models say and the migrated schema does not, or the reverse; empty when they agree."""
    with db.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(difference) for difference in compare_metadata(context, SQLModel.metadata)]


def undeclared() -> list[str]:
    """What the models say and all revisions together do not make, or the reverse, on an empty SQLite database."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/empty.sqlite")
        try:
            upgrade(database)
            return differences(database)
        finally:
            database.dispose()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 where models and revisions agree, else 1 and a line for each difference."""
    parser = argparse.ArgumentParser(prog="python -m db.migrate", description="Hold the migrations against the models.")
    parser.add_argument("--check", action="store_true", required=True, help="exit with 1 and say what differs")
    parser.parse_args(arguments)
    found = undeclared()
    for line in found:
        sys.stdout.write(f"{line}\n")
    if found:
        sys.stdout.write('Models and migrations disagree: make a revision (alembic revision --autogenerate -m "…").\n')
    return 1 if found else 0


@contextmanager
def migrating(db: Database) -> Iterator[Connection]:
    """A connection inside one write transaction fit for migrations: alone, and checked before it commits.

    Raises:
        Unavailable: references are broken at the end; the transaction is rolled back.
    """
    with db.engine.connect() as opened:
        connection = opened.execution_options(draftmill_write=True)
        _enforce(connection, db, on=False)
        try:
            with connection.begin():
                if not db.is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
                yield connection
                if db.is_sqlite:
                    _check_references(connection)
        finally:
            _enforce(connection, db, on=True)


def database_url_from_environment() -> str:
    """The URL for command-line use of Alembic: `DRAFTMILL_DATABASE_URL`, else SQLite in `DRAFTMILL_DATA_DIR` (./data)."""
    folder = Path(os.environ.get("DRAFTMILL_DATA_DIR") or "data").absolute()
    return os.environ.get("DRAFTMILL_DATABASE_URL") or f"sqlite:///{folder / 'draftmill.sqlite'}"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _enforce(connection: Connection, db: Database, *, on: bool) -> None:
    """Foreign keys on or off; SQLite listens to this only outside a transaction, so it goes past SQLAlchemy's begin."""
    if db.is_sqlite:
        cursor = connection.connection.cursor()
        cursor.execute(f"PRAGMA foreign_keys={'ON' if on else 'OFF'}")
        cursor.close()


def _check_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    if broken:
        table, rowid, parent, _ = broken[0]
        raise Unavailable(
            "migration_broken_references",
            f"Migrating would leave {len(broken)} rows that refer to nothing (first: {table} row {rowid}, to {parent}). "
            "Nothing was changed; restore the database from a backup or report this.",
        )


if __name__ == "__main__":
    raise SystemExit(main())
