"""A shop with one empty run, on SQLite; and on both databases where the test is about what is asked of them."""

from pathlib import Path

import pytest

from db.engine import Database
from db.idstore import IdStore
from db.stores import open_id_store
from inference.context import Context
from inference.settings import Settings
from inference.tokens.cache import TokenizerCache
from tests.export.shop import Shop


@pytest.fixture
def shop(settings: Settings, sqlite_database: Database, data_dir: Path) -> Shop:
    cache = TokenizerCache(settings.model_roots, allow_remote_code=False)
    return Shop(Context(settings, sqlite_database, open_id_store(sqlite_database, data_dir), cache)).open()


@pytest.fixture
def any_shop(settings: Settings, database: Database, id_store: IdStore) -> Shop:
    """The same on SQLite and on PostgreSQL."""
    cache = TokenizerCache(settings.model_roots, allow_remote_code=False)
    return Shop(Context(settings, database, id_store, cache)).open()
