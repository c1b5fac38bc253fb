"""What a launch may hold is told by REST, with what the operator of this app allows; its command is shown before any start."""

import pytest

from db.tables import Backend
from inference.backends.launch.flags import ALLOWED, GUARDED, NEVER
from inference.backends.launch.spec import LaunchSpec
from inference.backends.offers import launch_fields


def test_every_field_and_flag_is_told_with_its_policy(lite_client, lite_people):
    told = lite_client.get("/api/v1/launch-fields", headers=lite_people.reviewer.headers).json()
    assert {field["name"] for field in told["fields"]} == set(LaunchSpec.model_fields)
    assert {field["group"] for field in told["fields"]} == {group["key"] for group in told["groups"]}
    by_policy = {policy: {flag["name"] for flag in told["flags"] if flag["policy"] == policy} for policy in
                 ("allowed", "guarded", "never")}  # fmt: skip
    assert by_policy == {"allowed": set(ALLOWED), "guarded": set(GUARDED), "never": set(NEVER)}
    for flag in told["flags"]:
        assert flag["passed"] == (flag["policy"] == "allowed")
        assert bool(flag["reason"]) == (flag["policy"] != "allowed")


def test_a_guarded_flag_says_that_the_operator_allows_it(settings):
    flags = launch_fields(settings.model_copy(update={"allowed_flags": ["--download-dir"]})).flags
    assert {flag.name for flag in flags if flag.policy == "guarded" and flag.passed} == {"download_dir"}


def test_a_command_is_previewed_and_nothing_is_made(lite_client, lite_people, lite_app):
    root = lite_app.state.context.settings.model_roots[0]
    (root / "previewed").mkdir(parents=True)
    (root / "previewed" / "config.json").write_text('{"model_type": "qwen3"}')
    ask = {"launch": {"model_path": "previewed", "tp_size": 2, "context_length": "32k"}}
    operator = lite_people.operator.headers
    answer = lite_client.post("/api/v1/backends/preview", json=ask, headers=operator)
    assert answer.status_code == 200
    told = answer.json()
    at = told["command"].index("--context-length")
    assert told["command"][at : at + 2] == ["--context-length", "32000"]
    assert "--port '<port>' \\\n  --nccl-port '<nccl port>'" in told["shell"]
    assert told["environment"]["HF_HUB_OFFLINE"] == "1"
    assert lite_client.get("/api/v1/backends", headers=operator).json()["items"] == []
    reader = lite_client.post("/api/v1/backends/preview", json=ask, headers=lite_people.reviewer.headers)
    assert reader.status_code == 403


@pytest.mark.parametrize(
    ("launch", "field", "told"),
    [
        ({"model_path": "/nowhere"}, "launch.model_path", "model root"),
        ({"model_path": "a/b", "nnodes": 2}, "launch.node_rank", "which of the 2"),
        ({"model_path": "a/b", "extra_flags": {"port": 1}}, "launch.extra_flags", "Draftmill sets it itself"),
        ({"model_path": "a/b", "extra_flags": {"download_dir": "/x"}}, "launch.extra_flags", "ALLOWED_FLAGS"),
        ({"model_path": "a/b", "extra_flags": {"page_size": 10**40}}, "launch.extra_flags", "at most 64 bits"),
        ({"model_path": "a/b", "extra_flags": {"cuda_graph_bs_decode": [2**63]}}, "launch.extra_flags", "64 bits"),
        ({"model_path": "a/b", "random_seed": 10**40}, "launch.random_seed", "less than or equal"),
        ({"model_path": "a/b", "context_length": 10**40}, "launch.context_length", "less than or equal"),
        ({"model_path": "a/b", "startup_limit_s": 1e300}, "launch.startup_limit_s", "less than or equal"),
        ({"model_path": "a/b", "drain_limit_s": 1e300}, "launch.drain_limit_s", "less than or equal"),
        ({"model_path": "a/b", "served_model_name": "a\u202eb"}, "launch.served_model_name", "control characters"),
        ({"model_path": "a/b", "served_model_name": "a\u0085b"}, "launch.served_model_name", "control characters"),
    ],
)
def test_a_launch_that_cannot_work_is_refused_at_its_field(lite_client, lite_people, launch, field, told):
    answer = lite_client.post("/api/v1/backends/preview", json={"launch": launch}, headers=lite_people.operator.headers)
    assert answer.status_code == 422
    assert field in answer.text
    assert told in answer.text
    assert "Value error" not in answer.text


def test_a_backend_is_shown_and_deleted_whatever_an_earlier_version_stored(lite_client, lite_people, lite_app):
    operator = lite_people.operator.headers
    made = lite_client.post(
        "/api/v1/backends", json={"name": "vast", "launch": {"model_path": "a/b"}}, headers=operator
    )
    address = f"/api/v1/backends/{made.json()['id']}"
    with lite_app.state.context.db.write() as session:
        session.get_one(Backend, made.json()["id"]).launch = {"model_path": "a/b", "random_seed": 10**40}
    seen = lite_client.get(address, headers=operator)
    assert seen.status_code == 200
    assert lite_client.delete(address, headers=operator | {"If-Match": seen.headers["ETag"]}).status_code == 204
