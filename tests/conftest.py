"""Fixtures that every room shares: migrated databases, settings and a data directory of the test's own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.engine import Database
from db.idstore import IdStore
from db.migrate import upgrade
from db.stores import open_id_store
from inference.settings import Settings
from tests.support.databases import PostgresCluster, postgres_cluster

pytest_plugins = ("tests.support.fake_sglang.fixtures", "tests.support.family_fixtures")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite database, to be copied."""
    path = tmp_path_factory.mktemp("sqlite-template") / "template.sqlite"
    database = Database(f"sqlite:///{path}")
    upgrade(database)
    database.dispose()
    return path


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresCluster]:
    """A private PostgreSQL cluster, started once a session."""
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty data directory."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of this test alone: nothing comes from the environment or a `.env` file."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"DRAFTMILL_{name.upper()}", raising=False)
    models = tmp_path / "models"
    models.mkdir()
    return Settings(_env_file=None, data_dir=data_dir, model_roots=[models], port=0)


@pytest.fixture
def sqlite_database(sqlite_template: Path, data_dir: Path) -> Iterator[Database]:
    """A migrated SQLite database, where `settings` expects it."""
    path = data_dir / "draftmill.sqlite"
    shutil.copyfile(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    yield database
    database.dispose()


@pytest.fixture
def postgres_database(postgres_server: PostgresCluster) -> Iterator[Database]:
    """A migrated PostgreSQL database."""
    name = postgres_server.create(postgres_server.migrated_template())
    database = Database(postgres_server.url(name))
    yield database
    database.dispose()
    postgres_server.drop(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> Database:
    """A migrated database; the test runs once on each kind."""
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture
def id_store(database: Database, data_dir: Path) -> Iterator[IdStore]:
    """The id store that goes with `database`."""
    store = open_id_store(database, data_dir)
    yield store
    store.close()
