"""Log-in, log-out, and that no other site can act through a browser that is logged in."""

import contextlib
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from api.auth.links import create_login_link
from api.auth.throttle import FailureThrottle
from tests.api.conftest import BASE

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def browser(client: TestClient, people) -> TestClient:
    """Logged in as the operator."""
    assert client.post("/login", data={"token": people.operator.token, "next": "/"}).status_code == 303
    return client


def csrf(browser: TestClient) -> str:
    return browser.get("/api/v1/me").json()["csrf"]


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client, people):
    answer = client.post("/login", data={"token": people.reviewer.token, "next": "/runs/1"})
    assert answer.headers["location"] == "/runs/1"
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("draftmill_session=")
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie
    assert client.get("/api/v1/me").json()["via"] == "session"


def test_the_cookie_is_secure_over_https(lite_app, lite_people):
    with contextlib.closing(TestClient(lite_app, base_url="https://localhost", follow_redirects=False)) as client:
        answer = client.post("/login", data={"token": lite_people.reviewer.token})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nX: y"]
)
def test_log_in_leads_to_no_other_site(lite_client, lite_people, target):
    answer = lite_client.post("/login", data={"token": lite_people.reviewer.token, "next": target})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"


def test_a_wrong_token_says_so_on_the_page(lite_client):
    answer = lite_client.post("/login", data={"token": "<script>"})
    assert answer.status_code == 401
    assert "unknown or was revoked" in answer.text
    assert "<script>" not in answer.text


def test_a_login_link_works_once_and_a_preview_does_not_spend_it(client, app, people):
    with app.state.context.db.write() as session:
        code = create_login_link(session, people.reviewer.id, timedelta(minutes=5))
    for _ in range(3):
        page = client.get("/login", params={"code": code})
        assert code in page.text
    assert client.post("/login", data={"code": code}).status_code == 303
    assert client.get("/api/v1/me").json()["name"] == people.reviewer.name
    client.cookies.clear()
    again = client.post("/login", data={"code": code})
    assert again.status_code == 401
    assert "used already" in again.text


def test_a_stale_login_link_and_a_disabled_users_do_nothing(lite_client, lite_app, lite_people):
    with lite_app.state.context.db.write() as session:
        stale = create_login_link(session, lite_people.reviewer.id, timedelta(seconds=-1))
    assert lite_client.post("/login", data={"code": stale}).status_code == 401
    with lite_app.state.context.db.write() as session:
        code = create_login_link(session, lite_people.reviewer.id, timedelta(hours=1))
    lite_client.delete(f"/api/v1/users/{lite_people.reviewer.id}", headers=lite_people.admin.headers)
    assert lite_client.post("/login", data={"code": code}).status_code == 401


def test_a_change_by_cookie_needs_the_csrf_token(browser):
    body = {"name": "loops"}
    assert browser.post("/api/v1/tags", json=body).json()["code"] == "csrf"
    assert browser.post("/api/v1/tags", json=body, headers={"X-CSRF-Token": "wrong"}).status_code == 403
    assert browser.post("/api/v1/tags", json=body, headers={"X-CSRF-Token": csrf(browser)}).status_code == 201


def test_the_form_field_csrf_serves_as_well(browser):
    token = csrf(browser)
    assert browser.post("/logout", data={"csrf": "wrong"}).status_code == 403
    assert browser.post("/logout", data={"csrf": token}).status_code == 303
    assert browser.get("/api/v1/me").status_code == 401


def test_one_sessions_csrf_token_does_not_serve_another(browser, lite_app, people):
    first = csrf(browser)
    browser.cookies.clear()
    browser.post("/login", data={"token": people.operator.token})
    assert csrf(browser) != first
    assert browser.post("/logout", data={"csrf": first}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_sites_request_is_refused_even_with_the_token(browser, headers):
    answer = browser.post("/api/v1/tags", json={"name": "x"}, headers={"X-CSRF-Token": csrf(browser), **headers})
    assert answer.status_code == 403
    assert answer.json()["code"] == "foreign_origin"


def test_the_own_origin_is_welcome(browser):
    headers = {"X-CSRF-Token": csrf(browser), "Origin": BASE, "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/api/v1/tags", json={"name": "x"}, headers=headers).status_code == 201


def test_another_site_cannot_log_a_browser_in(lite_client, lite_people):
    answer = lite_client.post(
        "/login", data={"token": lite_people.reviewer.token}, headers={"Origin": "https://evil.example"}
    )
    assert answer.status_code == 403


def test_a_bearer_token_needs_no_csrf_token(lite_client, lite_people):
    answer = lite_client.post("/api/v1/tags", json={"name": "by token"}, headers=lite_people.reviewer.headers)
    assert answer.status_code == 201


def test_a_multipart_form_without_csrf_field_reaches_no_handler(browser):
    answer = browser.post("/logout", files={"file": ("a", b"x")})
    assert answer.status_code == 403
    assert answer.json()["code"] == "csrf"


def test_many_failed_log_ins_make_the_form_rest(lite_client, lite_people):
    for _ in range(10):
        assert lite_client.post("/login", data={"token": "wrong"}).status_code == 401
    answer = lite_client.post("/login", data={"token": lite_people.reviewer.token})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0
    assert lite_client.get("/api/v1/me", headers=lite_people.reviewer.headers).status_code == 200


def test_failures_are_forgotten_after_the_window_and_memory_is_bounded():
    clock = [0.0]
    throttle = FailureThrottle(limit=3, window_s=60, clock=lambda: clock[0])
    for _ in range(5):
        throttle.failed("a")
    assert throttle.wait_s("a") > 0
    assert throttle.wait_s("b") == 0
    clock[0] = 61.0
    assert throttle.wait_s("a") == 0
    for number in range(11_000):
        throttle.failed(str(number))
    assert len(throttle._failures) <= 10_000


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "", "http://127.0.0.1.evil.example"])
def test_an_origin_that_cannot_be_ours_is_refused_and_no_fault_of_our_side(browser, origin):
    headers = {"Origin": origin, "X-CSRF-Token": csrf(browser)}
    answer = browser.post("/api/v1/tags", json={"name": "x"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")


def test_a_form_of_thousands_of_fields_carries_no_csrf_token(browser):
    content = f"csrf={csrf(browser)}&" + "&".join(["a=1"] * 3000)
    answer = browser.post("/tags", content=content, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf")


def test_a_page_that_takes_no_file_takes_no_multipart_form_on_trust(browser):
    form = {"csrf": (None, csrf(browser)), "name": (None, "x"), "file": ("a", b"x")}
    answer = browser.post("/tags", files=form)
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf")
