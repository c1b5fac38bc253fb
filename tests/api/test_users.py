"""Users and their tokens; the ladder of roles; the last admin; who did what."""

import pytest
from sqlmodel import select

from api.auth.users import change_user
from db.errors import Conflict
from db.tables import User
from tests.api.test_edges import assert_problem

OPERATOR_ONLY = [
    ("POST", "/api/v1/backends", {"name": "x", "kind": "attached", "url": "http://127.0.0.1:1"}),
    ("PATCH", "/api/v1/backends/1", {"name": "x"}),
    ("DELETE", "/api/v1/backends/1", None),
    *[("POST", f"/api/v1/backends/1/{action}", None) for action in ("start", "stop", "restart", "probe")],
    ("DELETE", "/api/v1/prompt-sets/1", None),
    ("POST", "/api/v1/runs", {"name": "x", "prompt_set_id": 1, "backend_ids": [1]}),
    ("POST", "/api/v1/runs/preview", {"name": "x", "prompt_set_id": 1, "backend_ids": [1]}),
    ("DELETE", "/api/v1/runs/1", None),
    *[("POST", f"/api/v1/runs/1/{action}", None) for action in ("pause", "resume", "cancel", "retry", "rederive")],
    ("POST", "/api/v1/runs/1/regenerate", {"filter": {}}),
    ("POST", "/api/v1/runs/1/exports", {"format": "x"}),
    ("GET", "/api/v1/audit", None),
]
ADMIN_ONLY = [
    ("GET", "/api/v1/users", None),
    ("POST", "/api/v1/users", {"name": "x", "role": "admin"}),
    ("PATCH", "/api/v1/users/1", {"role": "admin"}),
    ("DELETE", "/api/v1/users/1", None),
    ("GET", "/api/v1/users/1/tokens", None),
    ("POST", "/api/v1/users/1/tokens", None),
    ("DELETE", "/api/v1/users/1/tokens/1", None),
    ("POST", "/api/v1/users/1/login-link", None),
]


@pytest.mark.parametrize(("method", "path", "body"), OPERATOR_ONLY + ADMIN_ONLY)
def test_a_reviewer_starts_launches_and_manages_nothing(lite_client, lite_people, method, path, body):
    answer = lite_client.request(method, path, json=body, headers=lite_people.reviewer.headers)
    assert_problem(answer, 403, "role_needed")


def test_a_reviewer_uploads_nothing(lite_client, lite_people):
    answer = lite_client.post("/api/v1/prompt-sets", files={"file": b"x"}, headers=lite_people.reviewer.headers)
    assert_problem(answer, 403, "role_needed")


@pytest.mark.parametrize(("method", "path", "body"), ADMIN_ONLY)
def test_an_operator_manages_no_users(lite_client, lite_people, method, path, body):
    answer = lite_client.request(method, path, json=body, headers=lite_people.operator.headers)
    assert_problem(answer, 403, "role_needed")


def test_an_admin_makes_a_user_whose_token_works_and_is_shown_once(client, people):
    made = client.post("/api/v1/users", json={"name": "Zoë", "role": "reviewer"}, headers=people.admin.headers)
    assert made.status_code == 201
    path = f"/api/v1/users/{made.json()['id']}/tokens"
    token = client.post(path, json={"label": "laptop"}, headers=people.admin.headers)
    assert token.status_code == 201
    mine = {"Authorization": f"Bearer {token.json()['token']}"}
    assert client.get("/api/v1/me", headers=mine).json()["name"] == "Zoë"
    listed = client.get(path, headers=people.admin.headers)
    assert [row["label"] for row in listed.json()["items"]] == ["laptop"]
    assert token.json()["token"] not in listed.text
    assert client.delete(f"{path}/{token.json()['id']}", headers=people.admin.headers).status_code == 204
    assert client.get("/api/v1/me", headers=mine).status_code == 401


def test_a_login_link_made_over_rest_opens_a_session(lite_client, lite_people):
    path = f"/api/v1/users/{lite_people.reviewer.id}/login-link"
    link = lite_client.post(path, headers=lite_people.admin.headers).json()
    code = link["path"].removeprefix("/login?code=")
    assert lite_client.post("/login", data={"code": code}).status_code == 303
    assert lite_client.get("/api/v1/me").json()["id"] == lite_people.reviewer.id


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "a\nb", "a,b"])
def test_a_name_that_is_none_is_refused(lite_client, lite_people, name):
    answer = lite_client.post(
        "/api/v1/users", json={"name": name, "role": "reviewer"}, headers=lite_people.admin.headers
    )
    assert_problem(answer, 422, "name_invalid", "name")


def test_a_taken_name_is_a_conflict(lite_client, lite_people):
    body = {"name": lite_people.reviewer.name, "role": "reviewer"}
    assert_problem(
        lite_client.post("/api/v1/users", json=body, headers=lite_people.admin.headers), 409, "name_taken", "name"
    )


def test_the_last_admin_can_be_neither_demoted_nor_disabled(client, app, people):
    with app.state.context.db.write() as session:
        for user in session.exec(select(User).where(User.role == "admin", User.id != people.admin.id)):
            change_user(session, user.id, disabled=True)
    path = f"/api/v1/users/{people.admin.id}"
    assert_problem(
        client.patch(path, json={"role": "operator"}, headers=people.admin.headers), 409, "last_admin", "role"
    )
    assert_problem(client.delete(path, headers=people.admin.headers), 409, "last_admin", "role")
    assert client.get("/api/v1/me", headers=people.admin.headers).json()["role"] == "admin"


def test_a_disabled_user_can_be_enabled_but_old_tokens_stay_dead(client, people):
    path = f"/api/v1/users/{people.reviewer.id}"
    assert client.delete(path, headers=people.admin.headers).status_code == 204
    assert_problem(client.post(f"{path}/tokens", headers=people.admin.headers), 409, "user_disabled")
    assert client.patch(path, json={"disabled": False}, headers=people.admin.headers).json()["disabled"] is False
    assert client.get("/api/v1/me", headers=people.reviewer.headers).status_code == 401


def test_a_log_in_link_does_not_outlive_its_users_time_away(client, people):
    path = f"/api/v1/users/{people.operator.id}"
    code = client.post(f"{path}/login-link", headers=people.admin.headers).json()["path"].partition("=")[2]
    client.delete(path, headers=people.admin.headers)
    client.patch(path, json={"disabled": False}, headers=people.admin.headers)
    assert client.post("/login", data={"code": code}).status_code == 401


def test_a_role_changed_counts_at_once(client, people):
    assert client.get("/api/v1/users", headers=people.operator.headers).status_code == 403
    client.patch(f"/api/v1/users/{people.operator.id}", json={"role": "admin"}, headers=people.admin.headers)
    assert client.get("/api/v1/users", headers=people.operator.headers).status_code == 200


def test_two_admins_cannot_send_each_other_away(app, people):
    db = app.state.context.db
    with db.write() as session:
        first = session.exec(select(User).where(User.name == "admin")).one().id
        change_user(session, people.admin.id, disabled=True)
    with pytest.raises(Conflict), db.write() as session:
        change_user(session, first, role="reviewer")


def test_deeds_are_written_down_with_who_did_them_and_pages_of_them_join(client, people):
    for number in range(5):
        client.post("/api/v1/tags", json={"name": f"tag {number}"}, headers=people.reviewer.headers)
    client.post("/api/v1/tags", json={"name": "tag 0"}, headers=people.reviewer.headers)  # refused: leaves no trace
    seen, after = [], None
    while True:
        params = {"limit": 2} | ({"after": after} if after else {})
        page = client.get("/api/v1/audit", params=params, headers=people.operator.headers).json()
        seen += page["items"]
        after = page["next"]
        if after is None:
            break
    created = [entry["detail"]["name"] for entry in seen if entry["action"] == "tag.create"]
    assert created == [f"tag {number}" for number in (4, 3, 2, 1, 0)]
    assert {entry["by"] for entry in seen if entry["action"] == "tag.create"} == {people.reviewer.name}
