"""The schema: made by migrations alone, equal to the models, and safe for the data in it."""

from db.engine import Database
from db.migrate import differences, is_current, upgrade


def test_models_and_migrations_agree(database: Database):
    assert is_current(database)
    assert differences(database) == []


def test_upgrading_twice_changes_nothing(database: Database):
    upgrade(database)
    assert is_current(database)
