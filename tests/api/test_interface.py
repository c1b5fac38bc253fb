"""The calls that are promised exist, are documented, and OpenAPI tells the truth about them."""

import pytest

from db.filters import FIELDS
from inference.quality.flags import FLAG_CODES
from tests.api.routing import operations
from tests.support.tiny_tokenizers import make_tokenizer

PROMISED = """
GET /me | GET /users | POST /users | PATCH /users/{} | DELETE /users/{} | POST /users/{}/tokens
GET /backends | POST /backends | GET /backends/{} | PATCH /backends/{} | DELETE /backends/{} | POST /backends/{}/{}
GET /backends/{}/logs | GET /backends/{}/logs/stream | GET /backends/{}/events | GET /backends/{}/figures
GET /backends/{}/logs/download | GET /backends/{}/starts | POST /backends/preview | GET /launch-fields
GET /gpus | GET /leftovers | POST /leftovers/{}/clean
GET /token-formats | GET /token-formats/suggest | GET /flags | POST /render | POST /segment
GET /prompt-sets | POST /prompt-sets | GET /prompt-sets/{} | GET /prompt-sets/{}/prompts | GET /prompt-sets/{}/errors
DELETE /prompt-sets/{}
GET /runs | POST /runs | GET /runs/{} | DELETE /runs/{} | POST /runs/{}/pause | POST /runs/{}/resume | POST /runs/{}/cancel
POST /runs/{}/retry | POST /runs/{}/regenerate | POST /runs/{}/rederive | GET /runs/{}/stats | GET /runs/{}/events
GET /runs/{}/stream
GET /runs/{}/samples | GET /samples/{} | GET /samples/{}/tokens | GET /samples/{}/attempts
PUT /samples/{}/review | GET /samples/{}/reviews | PUT /samples/{}/tags/{} | DELETE /samples/{}/tags/{}
GET /samples/{}/comments | POST /samples/{}/comments | GET /tags | POST /tags
GET /export-formats | POST /runs/{}/exports | GET /exports/{} | GET /exports/{}/files/{}
GET /audit
"""
PAGES = "/ /backends /backends/{} /backends/new /backends/{}/edit /backends/flags /prompt-sets /prompt-sets/{} /runs /runs/new /runs/{} /runs/{}/samples /samples/{} /render /exports"


def plain(pattern: str) -> str:
    import re

    return re.sub(r"\{[^}]*\}", "{}", pattern)


def promised() -> list[tuple[str, str]]:
    calls = [call.split() for line in PROMISED.strip().splitlines() for call in line.split("|")]
    return [(method, path) for method, path in calls]


def test_every_promised_call_and_page_exists(lite_app):
    there = {(method, plain(pattern)) for method, pattern in operations(lite_app)}
    missing = [call for call in promised() if (call[0], f"/api/v1{call[1]}") not in there]
    missing += [("GET", page) for page in PAGES.split() if ("GET", page) not in there]
    missing += [("GET", path) for path in ("/healthz", "/readyz", "/metrics", "/login") if ("GET", path) not in there]
    assert missing == []


@pytest.fixture(scope="module")
def schema(shared_app):
    return shared_app.openapi()


def test_every_call_says_in_openapi_what_it_does(schema):
    for path, calls in schema["paths"].items():
        for method, call in calls.items():
            assert call.get("description", "").strip().endswith((".", ")")), (method, path)
            assert call.get("tags"), (method, path)


def test_every_list_is_a_keyset_page(schema):
    for path, calls in schema["paths"].items():
        answer = calls.get("get", {}).get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
        name = answer.get("schema", {}).get("$ref", "").rpartition("/")[2]
        assert "array" not in str(answer.get("schema", {}).get("type")), path
        if name.startswith("Page_"):
            assert set(schema["components"]["schemas"][name]["properties"]) == {"items", "next"}, path
            taken = {parameter["name"]: parameter["schema"] for parameter in calls["get"]["parameters"]}
            assert "after" in taken, path
            assert (taken["limit"]["minimum"], taken["limit"]["maximum"], taken["limit"]["default"]) == (1, 500, 50)


def test_a_short_list_is_walked_page_by_page_like_a_long_one(lite_client, lite_people):
    for path in ("flags", "token-formats"):
        whole = lite_client.get(f"/api/v1/{path}?limit=500", headers=lite_people.reviewer.headers).json()
        assert whole["next"] is None
        walked, after = [], ""
        while after is not None:
            query = {"limit": 2, **({"after": after} if after else {})}
            page = lite_client.get(f"/api/v1/{path}", params=query, headers=lite_people.reviewer.headers).json()
            walked, after = walked + page["items"], page["next"]
            assert len(page["items"]) <= 2
        assert walked == whole["items"]
    refused = lite_client.get("/api/v1/flags?after=WzFd", headers=lite_people.reviewer.headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_cursor")


def test_every_flag_code_is_listed_with_its_severity(lite_client, lite_people):
    listed = lite_client.get("/api/v1/flags?limit=500", headers=lite_people.reviewer.headers).json()["items"]
    assert [(item["code"], item["severity"], item["meaning"]) for item in listed] == sorted(
        (flag.code, flag.severity, flag.meaning) for flag in FLAG_CODES.values()
    )
    told = {item["code"]: (item["needs"], item["default"], item["switchable"]) for item in listed}
    assert told["truncated"] == ("ids", True, True)
    assert told["near_repetition"] == ("text", True, True)
    assert told["duplicate_answer"] == ("run", True, True)
    assert told["retokenization_drift"] == ("demand", False, True)
    assert told["content_lost"] == ("prompt", True, False)


def test_a_token_format_is_listed_with_what_it_cuts_by(lite_client, lite_people):
    listed = lite_client.get("/api/v1/token-formats?limit=500", headers=lite_people.reviewer.headers).json()["items"]
    found = {item["name"]: item for item in listed}
    assert found["qwen3"]["think"] == {"open": "<think>", "close": "</think>"}
    assert (found["qwen3"]["calls"]["begin"], found["qwen3"]["calls"]["end"]) == ("<tool_call>", "</tool_call>")
    assert found["kimi_k2"]["calls"]["section_begin"] == "<|tool_calls_section_begin|>"
    assert found["none"]["think"] is found["none"]["calls"] is found["none"]["messages"] is None
    for item in listed:
        parts = [item["think"] or {}, item["calls"] or {}, item["messages"] or {}]
        texts = {text for part in parts for name, text in part.items() if text and name != "inner"}
        assert texts | {*item["stops"], *item["turn_starts"]} <= set(item["markers"])


def test_the_format_that_fits_a_tokenizer_is_suggested_with_the_reason(lite_app, lite_client, lite_people):
    folder = make_tokenizer(lite_app.state.context.settings.model_roots[0] / "suggested")
    ask = "/api/v1/token-formats/suggest"
    answer = lite_client.get(ask, params={"tokenizer": str(folder)}, headers=lite_people.reviewer.headers).json()
    assert answer["name"] == "qwen3"
    assert answer["reason"]
    assert "qwen3" not in answer["alternatives"]
    refused = lite_client.get(ask, params={"tokenizer": "nowhere"}, headers=lite_people.reviewer.headers)
    assert (refused.status_code, refused.json()["code"]) == (422, "tokenizer_missing")


SHOWN = {
    "BackendView": "id name kind url desired_state observed_state phase message evidence pid version model launch command",
    "PhaseView": "name done total since",
    "PromptSetView": "id name accepted rejected errors",
    "RowErrorView": "line code message",
    "RunView": "id name state reason counts settings progress created_at",
    "Counts": "pending in_flight done failed skipped flagged",
    "Progress": "samples_per_s tokens_per_s eta_s",
    "SampleRow": "id run_id prompt_id source_id category turn repeat state attempt attempts finish_reason prompt_tokens "
    "completion_tokens flags tags verdicts error",
    "SampleView": "id run_id source_id state attempt attempts flags tags verdicts error segments",
    "SegmentView": "kind start end text channel name arguments arguments_valid",
    "FlagView": "code severity start end message",
    "TagOnSample": "name by",
    "VerdictOnSample": "by verdict",
    "SampleTokens": "prompt_ids output_ids pieces",
    "RenderedView": "ids text pieces warnings",
    "Segmented": "segments flags",
    "ExportView": "id state files counts",
}
TAKEN = {
    "NewBackend": "name kind url api_key launch",
    "LaunchSpec": "model_path tokenizer_path device tp_size nnodes node_rank dist_init_addr context_length mem_fraction_static "
    "max_total_tokens attention_backend reasoning_parser tool_call_parser",
    "NewRun": "name prompt_set_id backend_ids tokenizer token_format sampling chat_template_kwargs repeats categories limit "
    "concurrency guard",
    "Sampling": "temperature top_p top_k min_p max_new_tokens",
    "RegenerateRequest": "filter sampling backend_ids",
    "RenderRequest": "tokenizer messages tools chat_template_kwargs",
    "SegmentRequest": "tokenizer token_format prompt_ids output_ids finish_reason tools",
    "ReviewBody": "verdict tags note",
    "NewComment": "start end body",
    "NewTag": "name key",
    "NewExport": "format filter options",
    "NewUser": "name role",
}


@pytest.mark.parametrize(("model", "fields"), [*SHOWN.items(), *TAKEN.items()])
def test_every_promised_field_is_shown_or_taken(schema, model, fields):
    known = schema["components"]["schemas"]
    named = known.get(model) or known.get(f"{model}-Output") or known[f"{model}-Input"]
    assert set(fields.split()) <= set(named["properties"])


def test_the_filter_knows_every_promised_field():
    promised = "state category flag tag verdict reviewer finish kind len turn q source_id"
    assert set(promised.split()) <= set(FIELDS)


def test_pages_are_not_in_openapi(schema):
    assert {path for path in schema["paths"] if not path.startswith("/api/v1/")} == {"/healthz", "/readyz", "/metrics"}


def test_long_actions_say_202(schema):
    actions = ["pause", "resume", "cancel", "retry", "regenerate", "rederive", "exports"]
    for action in actions:
        assert "202" in schema["paths"][f"/api/v1/runs/{{run_id}}/{action}"]["post"]["responses"]
    assert "202" in schema["paths"]["/api/v1/backends/{backend_id}/{action}"]["post"]["responses"]
