"""No call answers 500, whatever it is sent: every operation against a list of hostile values, on both databases."""

import json
import random

import pytest

from api.errors import PROBLEM_JSON
from tests.api.routing import operations
from tests.api.samples import seed_run

VALUES = [
    None, True, -1, 0, 2**31, 2**63, 2**64, 1.5, 1e308, "", " ", "a" * 300, "\u202e\u0007", "'; DROP TABLE users; --", "../../etc/passwd",
    "💥", [], [[]], ["a"], [1, 2, 2**32], {}, {"a": {"b": []}}, {"state": ["done"]}, {"nope": ["x"]},
]  # fmt: skip
QUERIES = ["limit=0", "limit=99999999999999999999", "after=%ff", "after=WzFd", "sort=x", "len=9..1", "len=1..99999999999999999999", "q=%25",
           "category=%5C", "tag=none&-tag=none", "attempt=0", "pieces=maybe", "tail=-5", "name=" + "n" * 300, "flag=x&flag=y"]  # fmt: skip
KEYS = [
    "name", "role", "kind", "url", "launch", "api_key", "tokenizer", "messages", "tools", "token_format", "output_ids", "prompt_ids", "filter",
    "sampling", "backend_ids", "prompt_set_id", "verdict", "tags", "note", "body", "start", "end", "key", "format", "options", "label", "disabled",
    "expected_count", "finish_reason", "chat_template_kwargs", "repeats", "categories", "limit", "concurrency", "guard", "seed",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_no_call_answers_500(app, client, people, seed):
    chance = random.Random(seed)
    seeded = seed_run(app, 4)
    names = {"run_id": seeded.run_id, "sample_id": seeded.sample_ids[0], "prompt_set_id": seeded.prompt_set_id}
    fields = required_fields(app)
    calls = [
        call
        for call in operations(app)
        if call[1].startswith("/api/v1") and "stream" not in call[1] and call[0] != "DELETE"
    ]
    for method, pattern in calls:
        for _ in range(4):
            path = fill(pattern, names, chance)
            body = {name: chance.choice(VALUES) for name in fields.get((method, pattern), []) if chance.random() < 0.9}
            body |= {chance.choice(KEYS): chance.choice(VALUES) for _ in range(chance.randrange(2))}
            query = chance.choice(QUERIES) if chance.random() < 0.5 else ""
            content = json.dumps(body if chance.random() < 0.9 else chance.choice(VALUES)) if method != "GET" else None
            headers = {**people.admin.headers, "Content-Type": "application/json"}
            answer = client.request(method, f"{path}?{query}" if query else path, content=content, headers=headers)
            assert answer.status_code in {*range(200, 500), 503}, (method, path, query, content, answer.text)
            if answer.status_code >= 400:
                assert answer.headers["content-type"].startswith(PROBLEM_JSON)
                assert answer.json()["code"]


def required_fields(app) -> dict[tuple[str, str], list[str]]:
    """The body's fields by call, so that some hostile values get past the first check."""
    schema = app.openapi()
    found = {}
    for path, calls in schema["paths"].items():
        for method, call in calls.items():
            reference = str(
                call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            )
            name = reference.partition("#/components/schemas/")[2].partition("'")[0]
            if name:
                found[method.upper(), path] = list(schema["components"]["schemas"][name].get("properties", {}))
    return found


def fill(pattern: str, names: dict[str, int], chance: random.Random) -> str:
    for name, value in names.items():
        pattern = pattern.replace(
            f"{{{name}}}", str(value if chance.random() < 0.8 else chance.choice([7, 0, 2**31 - 1, "x"]))
        )
    while "{" in pattern:
        start, end = pattern.index("{"), pattern.index("}")
        pattern = (
            pattern[:start] + chance.choice(["1", "2", "start", "no-such", "%00", "a%2F..%2Fb"]) + pattern[end + 1 :]
        )
    return pattern
