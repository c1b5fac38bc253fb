"""The upload desk, on SQLite; and on both databases where the test is about what is stored."""

from pathlib import Path

import pytest

from db.engine import Database
from db.idstore import IdStore
from db.stores import open_id_store
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.prompts.uploading import Desk


def _context(settings: Settings, database: Database, store: IdStore) -> Context:
    return Context(settings, database, store, TokenizerCache(settings.model_roots, allow_remote_code=False))


@pytest.fixture
def desk(settings: Settings, sqlite_database: Database, data_dir: Path) -> Desk:
    return Desk(_context(settings, sqlite_database, open_id_store(sqlite_database, data_dir)))


@pytest.fixture
def any_desk(settings: Settings, database: Database, id_store: IdStore) -> Desk:
    """The same on SQLite and on PostgreSQL."""
    return Desk(_context(settings, database, id_store))
