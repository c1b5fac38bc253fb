"""Lists, filters and pages of samples; what people say of them, with versions."""

import json

import pytest

from tests.api.samples import seed_run
from tests.api.test_edges import assert_problem


@pytest.fixture
def run(app):
    return seed_run(app)


def test_pages_join_without_gap_or_repeat(client, people, run):
    seen, after = [], None
    while True:
        params = {"limit": 4, "sort": "-len"} | ({"after": after} if after else {})
        page = client.get(f"/api/v1/runs/{run.run_id}/samples", params=params, headers=people.reviewer.headers).json()
        seen += [row["id"] for row in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == run.sample_ids[::-1]


def test_a_filter_narrows_and_half_open_ranges_exclude_their_end(client, people, run):
    path = f"/api/v1/runs/{run.run_id}/samples"
    rows = client.get(path, params={"category": "a", "len": "10..50"}, headers=people.reviewer.headers).json()["items"]
    assert [row["completion_tokens"] for row in rows] == [10, 30]


@pytest.mark.parametrize("part", ["samples", "stats"])
def test_an_unknown_filter_field_is_named(client, people, run, part):
    answer = client.get(f"/api/v1/runs/{run.run_id}/{part}", params={"colour": "red"}, headers=people.reviewer.headers)
    assert_problem(answer, 422, "filter_unknown_field", "colour")


def test_an_unknown_filter_field_in_a_body_is_named(client, people, run):
    answer = client.post(
        f"/api/v1/runs/{run.run_id}/regenerate", json={"filter": {"colour": ["red"]}}, headers=people.operator.headers
    )
    assert_problem(answer, 422, "filter_unknown_field", "colour")


def test_names_that_are_no_filter_are_left_alone(client, people, run):
    params = {"limit": 2, "view": "raw", "t": "3-4", "attempt": "1", "from": "x"}
    answer = client.get(f"/api/v1/runs/{run.run_id}/samples", params=params, headers=people.reviewer.headers)
    assert len(answer.json()["items"]) == 2


def test_ndjson_streams_all_of_the_filter_one_a_line(client, people, run):
    headers = {**people.reviewer.headers, "Accept": "application/x-ndjson"}
    answer = client.get(f"/api/v1/runs/{run.run_id}/samples", params={"category": "b", "limit": 1}, headers=headers)
    assert answer.headers["content-type"] == "application/x-ndjson"
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [row["id"] for row in rows] == run.sample_ids[1::2]
    listed = client.get(f"/api/v1/runs/{run.run_id}/samples", params={"category": "b"}, headers=people.reviewer.headers)
    assert rows == listed.json()["items"]


def test_more_samples_than_a_batch_are_all_streamed(client, people, app):
    run = seed_run(app, 503)
    headers = {**people.reviewer.headers, "Accept": "application/x-ndjson"}
    answer = client.get(f"/api/v1/runs/{run.run_id}/samples", headers=headers)
    assert [json.loads(line)["id"] for line in answer.text.splitlines()] == run.sample_ids


def test_samples_of_a_run_that_is_not_are_a_404_in_every_form(client, people):
    for accept in ("application/json", "application/x-ndjson"):
        answer = client.get("/api/v1/runs/4711/samples", headers={**people.reviewer.headers, "Accept": accept})
        assert_problem(answer, 404, "not_found")


def test_the_exact_ids_come_out_past_two_hundred_thousand(client, people, run):
    answer = client.get(f"/api/v1/samples/{run.sample_ids[0]}/tokens", headers=people.reviewer.headers).json()
    assert (answer["prompt_ids"], answer["output_ids"]) == ([1, 2, 3], [200012, 5, 6])
    assert answer["pieces"] is None


def test_neighbours_stay_inside_the_filter(client, people, run):
    path = f"/api/v1/samples/{run.sample_ids[2]}/neighbours"
    found = client.get(path, params={"category": "a"}, headers=people.reviewer.headers).json()
    assert (found["previous"], found["next"], found["total"]) == (run.sample_ids[0], run.sample_ids[4], 3)


def test_attempts_are_listed_with_the_current_one_marked(client, people, run):
    items = client.get(f"/api/v1/samples/{run.sample_ids[0]}/attempts", headers=people.reviewer.headers).json()["items"]
    assert [(item["number"], item["current"]) for item in items] == [(1, True)]


def test_a_review_is_saved_with_a_version_and_an_old_version_is_refused(client, people, run):
    client.post("/api/v1/tags", json={"name": "loop"}, headers=people.reviewer.headers)
    path = f"/api/v1/samples/{run.sample_ids[0]}/review"
    body = {"verdict": "bad", "tags": ["loop"], "note": "repeats"}
    first = client.put(path, json=body, headers={**people.reviewer.headers, "If-Match": '"0"'})
    assert first.status_code == 200
    assert first.headers["etag"] == '"1"'
    assert first.json() | {"updated_at": None} == {**body, "version": 1, "updated_at": None}
    second = client.put(
        path, json={"verdict": "good"}, headers={**people.reviewer.headers, "If-Match": first.headers["etag"]}
    )
    assert second.json()["tags"] == []
    stale = client.put(path, json=body, headers={**people.reviewer.headers, "If-Match": first.headers["etag"]})
    assert_problem(stale, 412, "review_changed")
    bad = client.put(path, json=body, headers={**people.reviewer.headers, "If-Match": "W/abc"})
    assert_problem(bad, 422, "if_match_invalid", "If-Match")
    everybody = client.get(f"/api/v1/samples/{run.sample_ids[0]}/reviews", headers=people.operator.headers).json()
    assert [(item["by"], item["verdict"]) for item in everybody["items"]] == [(people.reviewer.name, "good")]


def test_two_people_judge_the_same_sample_without_touching_each_other(client, people, run):
    path = f"/api/v1/samples/{run.sample_ids[0]}/review"
    client.put(path, json={"verdict": "bad"}, headers=people.reviewer.headers)
    client.put(path, json={"verdict": "good"}, headers=people.operator.headers)
    rows = client.get(f"/api/v1/samples/{run.sample_ids[0]}/reviews", headers=people.reviewer.headers).json()["items"]
    assert {row["by"]: row["verdict"] for row in rows} == {people.reviewer.name: "bad", people.operator.name: "good"}


def test_tags_go_on_and_off_one_by_one(client, people, run):
    client.post("/api/v1/tags", json={"name": "a/b c"}, headers=people.reviewer.headers)
    client.post("/api/v1/tags", json={"name": "plain"}, headers=people.reviewer.headers)
    path = f"/api/v1/samples/{run.sample_ids[1]}/tags/plain"
    for _ in range(2):
        assert client.put(path, headers=people.reviewer.headers).json()["tags"] == ["plain"]
    assert client.delete(path, headers=people.reviewer.headers).json()["tags"] == []
    unknown = client.put(f"/api/v1/samples/{run.sample_ids[1]}/tags/nope", headers=people.reviewer.headers)
    assert_problem(unknown, 422, "tag_unknown", "tag")
    slashed = client.put(f"/api/v1/samples/{run.sample_ids[1]}/tags/a%2Fb%20c", headers=people.reviewer.headers)
    assert slashed.json()["tags"] == ["a/b c"]


def test_a_comment_cites_a_range_and_a_bad_range_is_refused(client, people, run):
    path = f"/api/v1/samples/{run.sample_ids[0]}/comments"
    made = client.post(path, json={"body": "<b>here</b>", "start": 0, "end": 2}, headers=people.reviewer.headers)
    assert made.status_code == 201
    assert client.get(path, headers=people.operator.headers).json()["items"] == [made.json()]
    refused = client.post(path, json={"body": "x", "start": 5, "end": 2}, headers=people.reviewer.headers)
    assert_problem(refused, 422, "range_invalid", "start")


def test_an_illegal_move_lists_the_legal_ones(client, people, run):
    answer = client.post(f"/api/v1/runs/{run.run_id}/pause", headers=people.operator.headers)
    body = assert_problem(answer, 409, "illegal_move")
    assert "regenerate" in body["allowed"]
    assert "pause" not in body["allowed"]


def test_regenerating_a_category_answers_202_with_the_run_and_how_many(client, people, run):
    answer = client.post(
        f"/api/v1/runs/{run.run_id}/regenerate", json={"filter": {"category": ["b"]}}, headers=people.operator.headers
    )
    assert answer.status_code == 202
    body = answer.json()
    assert (body["id"], body["affected"], body["counts"]["pending"], body["counts"]["done"]) == (run.run_id, 3, 3, 3)


def test_a_count_that_changed_since_it_was_seen_stops_a_regenerate(client, people, run):
    body = {"filter": {"category": ["b"]}, "expected_count": 2}
    answer = client.post(f"/api/v1/runs/{run.run_id}/regenerate", json=body, headers=people.operator.headers)
    assert_problem(answer, 409, "count_changed")


def test_a_rederive_is_a_job_of_the_worker_one_at_a_time(client, people, run):
    path = f"/api/v1/runs/{run.run_id}/rederive"
    answer = client.post(path, headers=people.operator.headers)
    assert answer.status_code == 202
    job = answer.json()["rederivation"]
    assert (job["state"], job["done"], job["before"], job["error"]) == ("queued", 0, {}, "")
    assert "rederive" not in answer.json()["allowed"]
    assert_problem(client.post(path, headers=people.operator.headers), 409, "rederive_running")


def test_a_rederive_by_a_format_that_cannot_be_bound_is_refused(client, people, run):
    path = f"/api/v1/runs/{run.run_id}/rederive"
    refused = client.post(path, json={"token_format": "klingon"}, headers=people.operator.headers)
    assert_problem(refused, 422, "format_unknown", "token_format")
    assert client.post(path, json={"format": "none"}, headers=people.operator.headers).status_code == 422
    assert client.get(f"/api/v1/runs/{run.run_id}", headers=people.reviewer.headers).json()["rederivation"] is None


def test_a_run_says_how_far_the_checks_behind_it_are(client, people, run):
    for path in (f"runs/{run.run_id}", f"runs/{run.run_id}/stats"):
        checked = client.get(f"/api/v1/{path}", headers=people.reviewer.headers).json()["checked"]
        assert checked == {"done": 0, "total": 6, "complete": False, "trouble": ""}


def test_a_deleted_run_is_gone_with_its_samples(client, people, run):
    assert client.delete(f"/api/v1/runs/{run.run_id}", headers=people.operator.headers).status_code == 204
    for path in (f"runs/{run.run_id}", f"samples/{run.sample_ids[0]}"):
        assert client.get(f"/api/v1/{path}", headers=people.reviewer.headers).status_code == 404
