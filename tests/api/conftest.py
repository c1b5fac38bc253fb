"""A real app on each database, and callers in each role."""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlmodel import SQLModel

from api.auth.throttle import FailureThrottle
from api.auth.tokens import create_token, ensure_admin
from api.auth.users import create_user
from api.main import create_app
from inference.settings import Settings
from tests.support.databases import PostgresCluster

BASE = "http://127.0.0.1"
ADMIN_TOKEN = "an-admin-token-for-tests"


@dataclass(frozen=True)
class Person:
    """A user and their token."""

    id: int
    name: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@dataclass(frozen=True)
class People:
    """One of each role."""

    reviewer: Person
    operator: Person
    admin: Person


@pytest.fixture(scope="session")
def sqlite_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    yield from running_app(own_settings(tmp_path_factory.mktemp("sqlite-app")))


@pytest.fixture(scope="session")
def postgres_app(postgres_server: PostgresCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    url = postgres_server.url(postgres_server.create(postgres_server.migrated_template()))
    yield from running_app(own_settings(tmp_path_factory.mktemp("postgres-app"), database_url=url))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def app(request: pytest.FixtureRequest) -> FastAPI:
    """The app without its worker, its database empty but for the first admin; on both databases."""
    made: FastAPI = request.getfixturevalue(f"{request.param}_app")
    with made.state.context.db.write() as session:
        for table in reversed(SQLModel.metadata.sorted_tables):
            session.execute(table.delete())
        ensure_admin(session, made.state.context.settings)
    made.state.throttle = FailureThrottle()
    return made


def running_app(settings: Settings) -> Iterator[FastAPI]:
    made = create_app(settings, worker=False)
    yield made
    made.state.context.ids.close()
    made.state.context.db.dispose()


@pytest.fixture(scope="session")
def shared_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """One app on SQLite for the tests that neither mind the database nor what others left in it."""
    yield from running_app(own_settings(tmp_path_factory.mktemp("shared-app")))


@pytest.fixture
def lite_app(shared_app: FastAPI) -> FastAPI:
    """The shared app, with nobody locked out."""
    shared_app.state.throttle = FailureThrottle()
    return shared_app


def own_settings(folder: Path, **changes: Any) -> Settings:
    """Settings that take nothing from the environment."""
    (folder / "models").mkdir(exist_ok=True)
    plain = {name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}
    chosen = {"data_dir": folder / "data", "model_roots": [folder / "models"], "port": 0}
    return Settings(_env_file=None, **{**plain, **chosen, **changes})


def people_of(app: FastAPI) -> People:
    found = []
    with app.state.context.db.write() as session:
        for role in ("reviewer", "operator", "admin"):
            user = create_user(session, f"{role[:3]} {secrets.token_hex(4)}", role)
            found.append(Person(user.id, user.name, create_token(session, user.id)[1]))
    return People(*found)


@pytest.fixture
def people(app: FastAPI) -> People:
    return people_of(app)


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    """A caller without any token."""
    with closing_client(app) as made:
        yield made


@contextlib.contextmanager
def closing_client(app: FastAPI) -> Iterator[TestClient]:
    with contextlib.closing(
        TestClient(app, base_url=BASE, follow_redirects=False, raise_server_exceptions=True)
    ) as made:
        yield made


@pytest.fixture
def lite_people(lite_app: FastAPI) -> People:
    return people_of(lite_app)


@pytest.fixture
def lite_client(lite_app: FastAPI) -> Iterator[TestClient]:
    with closing_client(lite_app) as made:
        yield made
