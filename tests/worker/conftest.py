"""A workshop on each database."""

import pytest

from db.engine import Database
from db.idstore import IdStore
from inference.settings import Settings
from tests.support.workshop import Workshop, make_context


@pytest.fixture
def shop(settings: Settings, database: Database, id_store: IdStore) -> Workshop:
    return Workshop(make_context(settings, database, id_store))
