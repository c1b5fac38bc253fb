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

from api.auth.throttle import FailureThrottle
from api.auth.tokens import create_token
from api.auth.users import create_user
from api.main import create_app
from db.engine import Database
from inference.settings import Settings

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


def app_settings(settings: Settings, database: Database) -> Settings:
    url = database.url.render_as_string(hide_password=False)
    return settings.model_copy(update={"database_url": url, "admin_token": settings.admin_token})


@pytest.fixture
def app(settings: Settings, database: Database) -> Iterator[FastAPI]:
    """The app without its worker; on both databases."""
    made = create_app(app_settings(settings, database), worker=False)
    yield made
    made.state.context.ids.close()
    made.state.context.db.dispose()


@pytest.fixture(scope="session")
def shared_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """One app on SQLite for the tests that neither mind the database nor what others left in it."""
    folder = tmp_path_factory.mktemp("shared-app")
    made = create_app(own_settings(folder), worker=False)
    yield made
    made.state.context.ids.close()
    made.state.context.db.dispose()


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
