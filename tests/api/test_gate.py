"""Nobody comes in without a token or a session, on any route."""

import re

import pytest
from fastapi.testclient import TestClient
from sqlmodel import select

from api.auth.identity import ROLES, allows
from api.auth.tokens import create_token, ensure_admin, revoke_all
from db.engine import Database
from db.tables import AccessToken
from inference.settings import Settings
from tests.api.routing import address, operations

OPEN = {"/healthz", "/readyz", "/login", "/favicon.ico"}


def test_every_route_but_the_open_ones_refuses_a_caller_without_token(lite_app, lite_client):
    seen = 0
    for method, pattern in operations(lite_app):
        if pattern in OPEN or pattern.startswith("/static"):
            continue
        answer = lite_client.request(method, address(pattern))
        assert answer.status_code == 401, (method, pattern, answer.status_code)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["code"] == "unauthorized"
        seen += 1
    assert seen > 50


def test_addresses_that_do_not_exist_are_not_told_apart_from_those_that_do(lite_client):
    assert lite_client.get("/api/v1/no-such-thing").status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/login"])
def test_the_open_addresses_answer_without_token(lite_client, path):
    assert lite_client.get(path).status_code == 200


def test_openapi_and_metrics_need_a_token(lite_client, lite_people):
    for path in ("/api/v1/openapi.json", "/metrics"):
        assert lite_client.get(path).status_code == 401
        assert lite_client.get(path, headers=lite_people.reviewer.headers).status_code == 200
    for path in ("/docs", "/redoc"):
        assert lite_client.get(path, headers=lite_people.admin.headers).status_code == 404


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Bearer ", "Basic YTpi", "wrong", "Bearer \xff\xfe", "Bearer " + "a" * 5000]
)
def test_a_token_that_is_none_is_refused(lite_client, header):
    answer = lite_client.get("/api/v1/me", headers={"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.json()["status"] == 401


def test_a_good_token_says_who_i_am(client: TestClient, people):
    answer = client.get("/api/v1/me", headers=people.operator.headers)
    me = {"id": people.operator.id, "name": people.operator.name, "role": "operator", "via": "token", "csrf": ""}
    assert answer.json() == me


def test_tokens_are_kept_as_hashes_alone(app, people):
    with app.state.context.db.read() as session:
        for row in session.exec(select(AccessToken)).all():
            assert re.fullmatch(r"[0-9a-f]{64}", row.token_hash)
            assert people.admin.token not in repr(row)


def test_a_revoked_token_and_a_disabled_user_stay_out(client, app, people):
    with app.state.context.db.write() as session:
        revoke_all(session, people.reviewer.id)
    assert client.get("/api/v1/me", headers=people.reviewer.headers).status_code == 401
    assert client.delete(f"/api/v1/users/{people.operator.id}", headers=people.admin.headers).status_code == 204
    assert client.get("/api/v1/me", headers=people.operator.headers).status_code == 401


def test_a_bad_authorization_header_is_not_healed_by_a_good_cookie(lite_client, lite_people):
    log_in = lite_client.post("/login", data={"token": lite_people.admin.token})
    assert log_in.status_code == 303
    assert lite_client.get("/api/v1/me").status_code == 200
    assert lite_client.get("/api/v1/me", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_a_browser_without_session_is_led_to_the_log_in_page_and_back(lite_client):
    answer = lite_client.get("/runs/1?view=raw", headers={"Accept": "text/html"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fruns%2F1%3Fview%3Draw"


def test_roles_are_a_ladder():
    assert [[allows(has, needed) for needed in ROLES] for has in ROLES] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert not allows("root", "reviewer")
    assert not allows("admin", "root")


def test_the_first_admin_token_is_made_once(sqlite_database: Database, settings: Settings):
    with sqlite_database.write() as session:
        first = ensure_admin(session, settings)
    with sqlite_database.write() as session:
        again = ensure_admin(session, settings)
    assert first is not None
    assert first.startswith("dm_")
    assert again is None


def test_the_settings_admin_token_replaces_its_forerunner(sqlite_database: Database, settings: Settings):
    def tokens() -> list[tuple[str, bool]]:
        with sqlite_database.read() as session:
            return [
                (row.token_hash[:8], row.revoked_at is None)
                for row in session.exec(select(AccessToken).order_by(AccessToken.id))
            ]

    for secret in ("first-secret-of-admin", "second-secret-of-admin"):
        chosen = Settings(**{**settings.model_dump(), "admin_token": secret}, _env_file=None)
        with sqlite_database.write() as session:
            assert ensure_admin(session, chosen) is None
    assert [live for _, live in tokens()] == [False, True]


def test_a_short_admin_token_is_refused(sqlite_database: Database, settings: Settings):
    chosen = Settings(**{**settings.model_dump(), "admin_token": "short"}, _env_file=None)
    with pytest.raises(ValueError, match="DRAFTMILL_ADMIN_TOKEN"), sqlite_database.write() as session:
        ensure_admin(session, chosen)


def test_tokens_of_two_calls_differ(sqlite_database: Database, settings: Settings):
    with sqlite_database.write() as session:
        ensure_admin(session, settings)
        made = {create_token(session, 1)[1] for _ in range(50)}
    assert len(made) == 50
    assert all(len(token) > 40 for token in made)
