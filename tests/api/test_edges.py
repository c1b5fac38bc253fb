"""Host names, headers, body sizes, and the one shape of every error."""

import json

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.exc import IntegrityError, OperationalError

from api.errors import PROBLEM_JSON, problem_of
from api.guards import MAX_BODY, SECURITY_HEADERS, HostAllowList, Outermost
from db.errors import Conflict, Forbidden, Invalid, NotFound, PreconditionFailed, TooLarge, Unavailable
from tests.api.conftest import BASE, closing_client

PROBLEM_MEMBERS = {"type", "title", "status", "detail", "code", "request_id"}


def assert_problem(answer, status: int, code: str, field: str | None = None) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith(PROBLEM_JSON)
    body = json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} in an answer"))
    assert set(body) >= PROBLEM_MEMBERS
    assert (body["status"], body["code"], body.get("field")) == (status, code, field)
    assert body["type"] == f"urn:draftmill:problem:{code}"
    assert body["detail"].strip().endswith((".", "again", "…", "?")), body["detail"]
    assert body["request_id"] == answer.headers["x-request-id"]
    return body


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8400", "LOCALHOST:1", "localhost.", "[::1]:8400", "[::1]"])
def test_the_own_names_are_answered_whatever_the_port(lite_client, host):
    assert lite_client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8400",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[::2]",
        "[::1]evil.example",
        "[::1]:8400@evil.example",
        "[::1",
        "localhost:\u00b2",
        "127.0.0.1@evil",
    ],
)
def test_a_name_that_is_not_ours_gets_nothing_even_with_a_token(lite_client, lite_people, host):
    answer = lite_client.get("/api/v1/me", headers={**lite_people.admin.headers, "Host": host.encode("latin-1")})
    body = assert_problem(answer, 421, "host_not_allowed")
    assert "DRAFTMILL_ALLOWED_HOSTS" in body["detail"]


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"evil.example"]])
def test_no_host_or_two_are_refused(hosts):
    async def inside(scope, receive, send):
        raise AssertionError("reached")

    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/healthz",
        "query_string": b"",
        "headers": [(b"host", host) for host in hosts],
    }
    run(Outermost(HostAllowList(inside, ["localhost"]))(scope, receive, send))
    assert sent[0]["status"] == 400


def run(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited for something")


@pytest.mark.parametrize("path", ["/healthz", "/login", "/api/v1/me", "/nowhere"])
def test_every_answer_carries_the_security_headers(lite_client, path):
    answer = lite_client.get(path)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value
    assert answer.headers["cache-control"] in {"no-store", "private, no-cache"}


def test_api_answers_are_not_stored(lite_client, lite_people):
    assert lite_client.get("/api/v1/me", headers=lite_people.reviewer.headers).headers["cache-control"] == "no-store"


def test_an_unknown_address_and_method_are_problems(lite_client, lite_people):
    headers = lite_people.reviewer.headers
    assert_problem(lite_client.get("/api/v1/nowhere", headers=headers), 404, "not_found")
    body = assert_problem(lite_client.patch("/api/v1/me", headers=headers), 405, "method_not_allowed")
    assert "GET" in body["detail"]


def test_a_browser_gets_errors_as_a_page_and_a_script_as_json(lite_client, lite_people):
    headers = {**lite_people.reviewer.headers, "Accept": "text/html,*/*"}
    page = lite_client.get("/nowhere", headers=headers)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert_problem(lite_client.get("/api/v1/nowhere", headers=headers), 404, "not_found")
    assert_problem(lite_client.get("/nowhere", headers=lite_people.reviewer.headers), 404, "not_found")


def test_a_field_at_fault_is_named_and_its_value_is_not_repeated(lite_client, lite_people):
    secret = "do-not-repeat-me"
    answer = lite_client.post(
        "/api/v1/users", json={"name": [secret], "role": secret, "more": secret}, headers=lite_people.admin.headers
    )
    body = assert_problem(answer, 422, "invalid", "name")
    assert {error["field"] for error in body["errors"]} == {"name", "role", "more"}
    assert all(set(error) == {"field", "message", "code"} for error in body["errors"])
    assert secret not in answer.text


def test_a_nested_field_is_named_by_its_path(lite_client, lite_people):
    body = {"name": "x", "kind": "managed", "launch": {"model_path": "m", "tp_size": "two"}}
    answer = lite_client.post("/api/v1/backends", json=body, headers=lite_people.operator.headers)
    assert_problem(answer, 422, "invalid", "launch.tp_size")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b'{"name": NaN}',
        b'{"name": 1e400}',
        b'{"name": "x", "chat_template_kwargs": {"a": [-1E999]}}',
        b'{"name": -Infinity}',
        b'{"name": "\\ud800"}',
        b'{"name": "a\\u0000b"}',
        b'{"name": "\xff"}',
        b"[" * 100_000,
        b'{"name": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_that_is_not_json_is_a_sentence(lite_client, lite_people, body):
    answer = lite_client.post(
        "/api/v1/tags", content=body, headers={**lite_people.reviewer.headers, "Content-Type": "application/json"}
    )
    assert_problem(answer, 422, "json_invalid" if body else "invalid", None if body else "body")


def test_a_body_without_json_content_type_is_refused(lite_client, lite_people):
    answer = lite_client.post(
        "/api/v1/tags", content=b'{"name":"x"}', headers={**lite_people.reviewer.headers, "Content-Type": "text/plain"}
    )
    assert answer.status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs/0",
        "/api/v1/runs/-1",
        "/api/v1/runs/abc",
        "/api/v1/runs/2147483648",
        "/api/v1/samples/99999999999999999999",
    ],
)
def test_an_id_that_cannot_be_is_a_422_not_a_500(lite_client, lite_people, path):
    answer = lite_client.get(path, headers=lite_people.reviewer.headers)
    assert answer.status_code == 422
    assert answer.json()["field"] in {"run_id", "sample_id"}


def test_an_id_that_is_not_there_is_a_404_on_both_databases(client, people):
    for path in ("backends", "runs", "samples", "prompt-sets", "exports"):
        for number in (7, 2**31 - 1):
            answer = client.get(f"/api/v1/{path}/{number}", headers=people.reviewer.headers)
            assert_problem(answer, 404, "not_found")
    assert_problem(client.get(f"/api/v1/samples/{2**63 - 1}", headers=people.reviewer.headers), 404, "not_found")


def test_a_null_character_in_the_address_is_refused(lite_client, lite_people):
    assert_problem(lite_client.get("/api/v1/runs?after=%00", headers=lite_people.reviewer.headers), 400, "bad_request")


@pytest.mark.parametrize("limit", ["0", "501", "-1", "many"])
def test_a_limit_out_of_range_is_refused(lite_client, lite_people, limit):
    answer = lite_client.get("/api/v1/runs", params={"limit": limit}, headers=lite_people.reviewer.headers)
    assert_problem(answer, 422, "invalid", "limit")


@pytest.mark.parametrize("path", ["runs", "prompt-sets", "audit"])
@pytest.mark.parametrize("after", ["x", "WzFd0", "!!!", "e" * 3000])
def test_a_cursor_that_no_page_gave_is_refused(lite_client, lite_people, path, after):
    answer = lite_client.get(f"/api/v1/{path}", params={"after": after}, headers=lite_people.operator.headers)
    assert_problem(answer, 422, "bad_cursor", "after")


def test_a_body_over_the_limit_is_refused_before_it_is_read(lite_client, lite_people):
    headers = {**lite_people.reviewer.headers, "Content-Type": "application/json", "Content-Length": str(MAX_BODY + 1)}
    body = assert_problem(lite_client.post("/api/v1/tags", content=b"{}", headers=headers), 413, "too_large")
    assert "16 MiB" in body["detail"]


def test_a_body_that_hides_its_length_is_refused_while_it_is_read(lite_client, lite_people):
    def endless():
        for _ in range(MAX_BODY // 2**20 + 2):
            yield b" " * 2**20

    headers = {**lite_people.reviewer.headers, "Content-Type": "application/json"}
    assert_problem(lite_client.post("/api/v1/tags", content=endless(), headers=headers), 413, "too_large")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("run", 7), 404),
        (Invalid("bad", "Mend it.", field="x"), 422),
        (Conflict("illegal", "Not now.", allowed=["stop"]), 409),
        (PreconditionFailed("changed", "Read it again."), 412),
        (Forbidden("role", "Not you."), 403),
        (TooLarge("big", "Too big."), 413),
        (Unavailable("gone", "Not there."), 503),
        (IntegrityError("INSERT", {}, Exception("unique")), 409),
        (OperationalError("SELECT", {}, Exception("locked")), 503),
    ],
)
def test_each_kind_of_error_keeps_its_status_and_shape(error, status):
    app = FastAPI()
    from api import errors

    errors.install(app)

    @app.get("/api/boom")
    def boom() -> None:
        raise error

    with closing_client(app) as client:
        answer = client.get("/api/boom")
    body = answer.json()
    assert answer.status_code == body["status"] == status
    assert set(body) >= PROBLEM_MEMBERS
    if status == 409:
        assert body["allowed"] == list(getattr(error, "allowed", ()))


def test_an_unforeseen_error_says_nothing_of_the_inside(capsys):
    async def broken(scope, receive, send):
        raise RuntimeError("password=hunter2 at /home/operator/secret.py")

    app = Outermost(broken)
    client = TestClient(app, base_url=BASE)
    answer = client.get("/api/v1/me")
    body = assert_problem(answer, 500, "internal")
    assert body["request_id"] in body["detail"]
    assert "hunter2" not in answer.text
    assert "secret.py" not in answer.text
    client.close()


def test_a_programming_error_in_the_database_is_not_taken_for_a_busy_one():
    import sqlite3

    from starlette.requests import HTTPConnection

    scope = {
        "type": "http",
        "path": "/",
        "headers": [],
        "query_string": b"",
        "server": ("x", 1),
        "scheme": "http",
        "state": {},
    }
    missing = OperationalError("SELECT", {}, sqlite3.OperationalError("no such table: x"))
    locked = OperationalError("SELECT", {}, sqlite3.OperationalError("database is locked"))
    assert problem_of(HTTPConnection(scope), missing).status == 500
    assert problem_of(HTTPConnection(scope), locked).status == 503
