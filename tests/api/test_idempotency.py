"""The same POST sent twice is done once."""

import threading

import pytest
from sqlmodel import col, select

from api.idempotency import INTERRUPTED, mark_interrupted
from db.tables import IdempotencyKey
from tests.api.test_edges import assert_problem


def key(person, value: str = "k1") -> dict[str, str]:
    return {**person.headers, "Idempotency-Key": value}


def test_the_second_answer_is_the_first_one_again(client, people):
    first = client.post("/api/v1/tags", json={"name": "once"}, headers=key(people.reviewer))
    again = client.post("/api/v1/tags", json={"name": "once"}, headers=key(people.reviewer))
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert again.status_code == 201
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/tags", {"name": "another"}),
        ("/api/v1/tags?x=1", {"name": "once"}),
        ("/api/v1/users", {"name": "once"}),
    ],
)
def test_the_key_of_another_request_is_refused(client, people, path, body):
    client.post("/api/v1/tags", json={"name": "once"}, headers=key(people.admin))
    answer = client.post(path, json=body, headers=key(people.admin))
    assert_problem(answer, 422, "idempotency_key_reused", "Idempotency-Key")


def test_a_key_belongs_to_its_user(client, people):
    client.post("/api/v1/tags", json={"name": "mine"}, headers=key(people.reviewer))
    answer = client.post("/api/v1/tags", json={"name": "yours"}, headers=key(people.operator))
    assert answer.status_code == 201


def test_an_error_did_nothing_so_its_key_is_free_again(client, people):
    assert client.post("/api/v1/tags", json={"name": ""}, headers=key(people.reviewer)).status_code == 422
    assert client.post("/api/v1/tags", json={"name": "mended"}, headers=key(people.reviewer)).status_code == 201


def test_a_secret_is_not_kept_to_be_shown_again(client, app, people):
    path = f"/api/v1/users/{people.reviewer.id}/tokens"
    first = client.post(path, headers=key(people.admin))
    again = client.post(path, headers=key(people.admin))
    assert_problem(again, 409, "idempotency_shown_once", "Idempotency-Key")
    with app.state.context.db.read() as session:
        assert first.json()["token"] not in str([row.body for row in session.exec(select(IdempotencyKey))])


def test_a_key_under_way_is_told_to_wait_and_one_cut_off_is_told_so(client, app, people):
    with app.state.context.db.write() as session:
        session.add(IdempotencyKey(user_id=people.reviewer.id, key="k1", request_hash="x"))
    digest = _hash_of(client, app, people)
    with app.state.context.db.write() as session:
        row = session.get_one(IdempotencyKey, (people.reviewer.id, "k1"))
        row.request_hash = digest
    waiting = client.post("/api/v1/tags", json={"name": "same"}, headers=key(people.reviewer))
    assert_problem(waiting, 409, "idempotency_in_progress", "Idempotency-Key")
    with app.state.context.db.write() as session:
        mark_interrupted(session)
    cut_off = client.post("/api/v1/tags", json={"name": "same"}, headers=key(people.reviewer))
    assert_problem(cut_off, 409, "idempotency_interrupted", "Idempotency-Key")


def _hash_of(client, app, people) -> str:
    """The hash that the app gives this request, seen under another key."""
    client.post("/api/v1/tags", json={"name": "same"}, headers=key(people.reviewer, "probe"))
    with app.state.context.db.read() as session:
        row = session.get_one(IdempotencyKey, (people.reviewer.id, "probe"))
        assert row.status not in {None, INTERRUPTED}
        return row.request_hash


def test_of_many_at_once_one_is_done(client, app, people):
    codes = []

    def send():
        codes.append(client.post("/api/v1/tags", json={"name": "raced"}, headers=key(people.reviewer)).status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {201, 409}
    assert codes.count(201) >= 1
    listed = client.get("/api/v1/tags", headers=people.reviewer.headers).json()["items"]
    assert [tag["name"] for tag in listed] == ["raced"]
    with app.state.context.db.read() as session:
        left = session.exec(select(IdempotencyKey).where(col(IdempotencyKey.status).is_(None))).all()
    assert left == []


@pytest.mark.parametrize("value", ["", "x" * 256])
def test_a_key_that_is_none_is_refused(lite_client, lite_people, value):
    answer = lite_client.post("/api/v1/tags", json={"name": "y"}, headers=key(lite_people.reviewer, value))
    assert_problem(answer, 422, "idempotency_key_invalid", "Idempotency-Key")


def test_get_ignores_the_key(lite_client, lite_people):
    for _ in range(2):
        assert lite_client.get("/api/v1/me", headers=key(lite_people.reviewer)).status_code == 200


def test_a_token_shown_on_a_page_is_kept_nowhere(client, app, people):
    client.post("/login", data={"token": people.admin.token})
    form = {"csrf": client.get("/api/v1/me").json()["csrf"], "name": "new here", "role": "reviewer"}
    page = client.post("/users", data=form, headers={"Idempotency-Key": "k1", "Accept": "text/html"})
    assert page.status_code == 201
    assert "dm_" in page.text
    with app.state.context.db.read() as session:
        assert not session.exec(select(IdempotencyKey)).all()
