"""Alembic's entry: runs on the connection that `db.migrate` hands over, or opens the operator's database for the command line."""

from logging.config import fileConfig
from typing import Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import JSON, BigInteger, Connection
from sqlmodel import SQLModel
from sqlmodel.sql.sqltypes import AutoString

from db.engine import Database
from db.migrate import database_url_from_environment, migrating
from db.types import UtcTime


def render_item(kind: str, item: object, _context: AutogenContext) -> str | Literal[False]:
    """How our types are spelled in a revision; SQLModel's string is a plain one there: its inner names are not ours to fix."""
    if kind != "type":
        return False
    if isinstance(item, AutoString):
        return f"sa.String(length={item.length})" if item.length else "sa.String()"
    if isinstance(item, UtcTime):
        return "db.types.UtcTime()"
    if isinstance(item, JSON):
        return "db.types.Json"
    if isinstance(item, BigInteger):
        return "db.types.Big"
    return False


def run(connection: Connection) -> None:
    """Run the revisions Alembic asks for, inside the transaction that the connection has begun."""
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        render_as_batch=True,
        compare_type=True,
        render_item=render_item,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if isinstance(given, Connection):
    run(given)
elif context.is_offline_mode():
    raise SystemExit("offline SQL is not supported: the revisions read the database they change")
else:
    if context.config.config_file_name:
        fileConfig(context.config.config_file_name, disable_existing_loggers=False)
    database = Database(database_url_from_environment())
    try:
        with migrating(database) as connection:
            run(connection)
    finally:
        database.dispose()
