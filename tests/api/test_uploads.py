"""Prompt sets over REST: every way to send a file, and every way to get it wrong."""

import csv
import gzip
import hashlib
import io
import json
import tracemalloc

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.api.server import serving
from tests.api.test_browser_sessions import csrf
from tests.api.test_edges import assert_problem

ROWS = [{"id": f"r{number}", "category": "ab"[number % 2], "prompt": f"question {number}"} for number in range(10)]
JSONL = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


def as_csv() -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["id", "category", "prompt"])
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode()


def as_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


RAW = {
    "application/x-ndjson": JSONL,
    "application/json": json.dumps(ROWS).encode(),
    "text/csv": as_csv(),
    "application/vnd.apache.parquet": as_parquet(),
}
NAMES = {"p.jsonl": JSONL, "p.json": RAW["application/json"], "p.csv": RAW["text/csv"], "p.parquet": as_parquet()}
PACKED = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


def assert_read(answer, name: str) -> dict:
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["name"], body["accepted"], body["rejected"], body["errors"]) == (name, 10, 0, [])
    assert body["categories"] == {"a": 5, "b": 5}
    assert answer.headers["location"] == f"/api/v1/prompt-sets/{body['id']}"
    return body


@pytest.mark.parametrize("kind", RAW)
def test_a_raw_body_is_read_by_its_content_type(client, people, kind):
    headers = {**people.operator.headers, "Content-Type": kind}
    body = assert_read(client.post("/api/v1/prompt-sets?name=set", content=RAW[kind], headers=headers), "set")
    prompts = client.get(
        f"/api/v1/prompt-sets/{body['id']}/prompts", params={"category": "b"}, headers=people.reviewer.headers
    )
    assert [row["source_id"] for row in prompts.json()["items"]] == [f"r{number}" for number in range(1, 10, 2)]
    assert body["sha256"] == hashlib.sha256(RAW[kind]).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_a_form_file_is_read_by_its_name(lite_client, lite_people, name):
    answer = lite_client.post(
        "/api/v1/prompt-sets", files={"file": (name, NAMES[name])}, headers=lite_people.operator.headers
    )
    assert assert_read(answer, name)["file_name"] == name


@pytest.mark.parametrize("packing", PACKED)
def test_packed_bodies_are_read_by_encoding_and_by_name(lite_client, lite_people, packing):
    packed = PACKED[packing](JSONL)
    headers = {**lite_people.operator.headers, "Content-Type": "application/x-ndjson", "Content-Encoding": packing}
    assert_read(lite_client.post("/api/v1/prompt-sets?name=x", content=packed, headers=headers), "x")
    name = {"gzip": "p.jsonl.gz", "zstd": "p.jsonl.zst"}[packing]
    answer = lite_client.post(
        "/api/v1/prompt-sets?name=x", files={"file": (name, packed)}, headers=lite_people.operator.headers
    )
    assert_read(answer, "x")


def test_the_name_may_be_a_form_field_before_the_file(lite_client, lite_people):
    parts = [("name", (None, "from the form")), ("file", ("p.jsonl", JSONL))]
    assert_read(
        lite_client.post("/api/v1/prompt-sets", files=parts, headers=lite_people.operator.headers), "from the form"
    )


def test_something_pasted_into_a_text_field_is_read_past_a_megabyte(lite_client, lite_people):
    big = [{"prompt": "x" * 1000} for _ in range(3500)]
    pasted = "".join(f"{json.dumps(row)}\n" for row in big).encode()
    assert len(pasted) > 3_000_000
    parts = [("file", ("", b"")), ("text", (None, pasted))]
    answer = lite_client.post("/api/v1/prompt-sets?name=pasted", files=parts, headers=lite_people.operator.headers)
    assert answer.status_code == 201, answer.text
    assert answer.json()["accepted"] == 3500


def test_bad_rows_are_reported_by_line_and_do_not_stop_the_good_ones(client, people):
    content = JSONL + b"not json\n" + b'{"messages": [{"content": "no role"}]}\n'
    answer = client.post(
        "/api/v1/prompt-sets?name=x", files={"file": ("p.jsonl", content)}, headers=people.operator.headers
    )
    body = answer.json()
    assert (answer.status_code, body["accepted"], body["rejected"]) == (201, 10, 2)
    assert [error["line"] for error in body["errors"]] == [11, 12]
    listed = client.get(f"/api/v1/prompt-sets/{body['id']}/errors", headers=people.reviewer.headers).json()["items"]
    assert listed == body["errors"]


@pytest.mark.parametrize(
    ("data", "name", "sentence", "lines"),
    [
        (b"", "none.jsonl", "none.jsonl has no rows", []),
        (b'{"prompt":\n{"messages":[]}\n', "bad.jsonl", "first at line 1", [1, 2]),
        (b'{"id":"a","prompt":"b"}\n', "lines.csv", "name it .jsonl", [1]),
    ],
)
def test_a_file_with_nothing_usable_is_an_error_with_its_lines_and_leaves_nothing(
    lite_client, lite_people, data, name, sentence, lines
):
    before = lite_client.get("/api/v1/prompt-sets", headers=lite_people.operator.headers).json()
    answer = lite_client.post("/api/v1/prompt-sets", files={"file": (name, data)}, headers=lite_people.operator.headers)
    body = assert_problem(answer, 422, "prompt_set_unusable", field="file")
    assert sentence in body["detail"]
    assert (body["accepted"], body["rejected"]) == (0, len(lines))
    assert [row["line"] for row in body["errors"]] == lines
    assert all(row["code"] and row["message"] for row in body["errors"])
    assert lite_client.get("/api/v1/prompt-sets", headers=lite_people.operator.headers).json() == before


def test_an_upload_of_megabytes_is_never_whole_in_memory(lite_app, lite_people):
    """Client and server both run in this process and both stream; the file lies on the disk."""
    piece = (json.dumps({"prompt": "y" * 16_000}) + "\n").encode() * 4
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="big.jsonl"\r\n\r\n'
    pieces = 48 * 2**20 // len(piece)

    def body():
        yield head
        for _ in range(pieces):
            yield piece
        yield b"\r\n--b--\r\n"

    headers = {**lite_people.operator.headers, "Content-Type": "multipart/form-data; boundary=b"}
    with serving(lite_app) as (url, _), httpx.Client(base_url=url, headers=headers, timeout=120) as client:
        client.get("/api/v1/me")
        tracemalloc.start()
        try:
            answer = client.post("/api/v1/prompt-sets?name=big", content=body())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert answer.status_code == 201, answer.text
    assert answer.json()["accepted"] == pieces * 4
    assert answer.json()["size_bytes"] == pieces * len(piece)
    assert peak < 32 * 2**20


@pytest.mark.parametrize("boundary_at", [1, 2, 3, 7, 64])
def test_a_form_cut_into_any_pieces_is_the_same_file(lite_client, lite_people, boundary_at):
    tricky = JSONL + b"\r\n--b\n--bb\r\n-\r\n"
    raw = b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\ncut\r\n' + (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="p.jsonl"\r\nContent-Type: application/x-ndjson\r\n\r\n'
        + tricky
        + b"\r\n--b--\r\n"
    )
    chunks = (raw[at : at + boundary_at] for at in range(0, len(raw), boundary_at))
    headers = {**lite_people.operator.headers, "Content-Type": "multipart/form-data; boundary=b"}
    answer = lite_client.post("/api/v1/prompt-sets", content=chunks, headers=headers)
    assert answer.status_code == 201, answer.text
    assert (answer.json()["name"], answer.json()["sha256"]) == ("cut", hashlib.sha256(tricky).hexdigest())


def refused(client, people, *, content: bytes, kind: str):
    return client.post(
        "/api/v1/prompt-sets?name=x", content=content, headers={**people.operator.headers, "Content-Type": kind}
    )


def test_what_is_no_file_says_how_to_send_one(lite_client, lite_people):
    form = refused(lite_client, lite_people, content=b"a=b", kind="application/x-www-form-urlencoded")
    assert "file=@" in assert_problem(form, 415, "unsupported_media_type")["detail"]
    nothing = lite_client.post(
        "/api/v1/prompt-sets", files={"other": ("x", b"y")}, headers=lite_people.operator.headers
    )
    assert_problem(nothing, 422, "file_missing", "file")
    bare = refused(lite_client, lite_people, content=b"x", kind="multipart/form-data")
    assert_problem(bare, 422, "multipart_malformed", "Content-Type")
    mangled = refused(lite_client, lite_people, content=b"not a form", kind="multipart/form-data; boundary=b")
    assert_problem(mangled, 422, "multipart_malformed", "file")


def test_an_upload_cut_short_leaves_no_set_behind(lite_client, lite_people):
    before = lite_client.get("/api/v1/prompt-sets", headers=lite_people.reviewer.headers).json()["items"]
    raw = b'--b\r\nContent-Disposition: form-data; name="file"; filename="p.jsonl"\r\n\r\n' + JSONL
    answer = refused(lite_client, lite_people, content=raw, kind="multipart/form-data; boundary=b")
    assert_problem(answer, 422, "upload_incomplete", "file")
    after = lite_client.get("/api/v1/prompt-sets", headers=lite_people.reviewer.headers).json()["items"]
    assert [row["id"] for row in after] == [row["id"] for row in before]


def test_a_form_field_without_end_is_refused(lite_client, lite_people):
    parts = [("name", (None, "x" * 70_000)), ("file", ("p.jsonl", JSONL))]
    answer = lite_client.post("/api/v1/prompt-sets", files=parts, headers=lite_people.operator.headers)
    assert_problem(answer, 422, "form_too_large")


def test_an_upload_over_the_limit_is_refused_by_the_settings_name(lite_client, lite_people):
    headers = {**lite_people.operator.headers, "Content-Type": "text/csv", "Content-Length": str(5 * 2**30)}
    answer = lite_client.post("/api/v1/prompt-sets", content=b"", headers=headers)
    assert "DRAFTMILL_MAX_UPLOAD_MB" in assert_problem(answer, 413, "too_large")["detail"]


def test_a_browser_form_uploads_with_its_csrf_field_before_the_file(lite_client, lite_people):
    lite_client.post("/login", data={"token": lite_people.operator.token})
    token = csrf(lite_client)
    good = [("csrf", (None, token)), ("file", ("p.jsonl", JSONL))]
    assert lite_client.post("/api/v1/prompt-sets?name=x", files=good).status_code == 201
    for bad in ([good[1]], [("csrf", (None, "no")), good[1]]):
        assert_problem(lite_client.post("/api/v1/prompt-sets?name=x", files=bad), 403, "csrf", "csrf")
    assert lite_client.post("/api/v1/prompt-sets", files=[good[1]], headers={"X-CSRF-Token": token}).status_code == 201


def test_an_unused_set_can_be_deleted(client, people):
    body = client.post(
        "/api/v1/prompt-sets", files={"file": ("p.jsonl", JSONL)}, headers=people.operator.headers
    ).json()
    path = f"/api/v1/prompt-sets/{body['id']}"
    assert client.delete(path, headers=people.operator.headers).status_code == 204
    assert client.get(path, headers=people.reviewer.headers).status_code == 404


def test_a_form_of_many_empty_fields_is_refused_before_it_fills_the_memory(lite_client, lite_people):
    field = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n\r\n'
    content = "".join(field.format(number) for number in range(1000)).encode()
    answer = refused(lite_client, lite_people, content=content, kind="multipart/form-data; boundary=b")
    assert_problem(answer, 422, "form_too_large")
