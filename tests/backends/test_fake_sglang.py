"""The fake answers as the real server was recorded to (0.5.23, a small think model), so that faults are its only lies."""

import contextlib
import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_sglang import RECORDED_ANSWER, Answer, FakeSglang

PROMPT = [151644, 872, 198, 13048, 151645, 198, 151644, 77091, 198]
SAYS = "<think>Let me think about it!</think>\n\nThe answer is four."
ROOT = Path(__file__).parents[2]


def ask(
    server: FakeSglang | str, path: str, body: Any = None, *, method: str | None = None, key: str | None = None
) -> tuple[int, Any]:
    """Asks by the plainest client there is; JSON is parsed, anything else is text."""
    url = server if isinstance(server, str) else server.url
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    with contextlib.closing(connection):
        raw = body if isinstance(body, str) else None if body is None else json.dumps(body)
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        connection.request(method or ("GET" if body is None else "POST"), path, raw, headers)
        response = connection.getresponse()
        text = response.read().decode()
        return response.status, json.loads(text) if response.headers.get("content-type") == "application/json" else text


def generate(server: FakeSglang, **body: Any) -> tuple[int, Any]:
    body.setdefault("sampling_params", {"temperature": 0, "max_new_tokens": 64})
    return ask(server, "/generate", body)


def test_an_answer_has_the_recorded_fields(fake_sglang: FakeSglang) -> None:
    status, answer = generate(fake_sglang, input_ids=PROMPT, rid="my-rid-1", return_prompt_token_ids=True)
    assert status == 200
    assert (answer["text"], answer["output_ids"], answer["prompt_token_ids"]) == (SAYS, RECORDED_ANSWER, PROMPT)
    assert list(answer["meta_info"]) == [
        "id", "finish_reason", "prompt_tokens", "weight_version", "num_retractions", "reasoning_tokens", "completion_tokens",
        "cached_tokens", "weight_versions", "cached_tokens_details", "dp_rank", "e2e_latency", "response_sent_to_client_ts",
    ]  # fmt: skip
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": 151645}
    assert (answer["meta_info"]["id"], answer["meta_info"]["completion_tokens"]) == ("my-rid-1", 15)
    assert answer["meta_info"]["weight_versions"] == [{"version": "default", "start": 0, "end": 15}]


@pytest.mark.parametrize(
    ("sampling", "ids", "finish", "text"),
    [
        ({"max_new_tokens": 0}, 0, {"type": "length", "length": 0}, ""),
        ({"max_new_tokens": 3}, 3, {"type": "length", "length": 3}, "<think>Let me"),
        ({"stop": ["answer"]}, 11, {"type": "stop", "matched": "answer"}, "<think>Let me think about it!</think>\n\nThe "),
        ({"stop_token_ids": [151668]}, 8, {"type": "stop", "matched": 151668}, "<think>Let me think about it!"),
        ({"stop_token_ids": [-1]}, 15, {"type": "stop", "matched": 151645}, SAYS),
        ({"ignore_eos": True, "max_new_tokens": 20}, 20, {"type": "length", "length": 20}, SAYS),
        ({"no_stop_trim": True}, 15, {"type": "stop", "matched": 151645}, SAYS),
        ({"no_stop_trim": True, "skip_special_tokens": False}, 15, {"type": "stop", "matched": 151645}, SAYS + "<|im_end|>"),
    ],
)  # fmt: skip
def test_stops_and_lengths_are_as_recorded(
    fake_sglang: FakeSglang, sampling: dict[str, Any], ids: int, finish: dict[str, Any], text: str
) -> None:
    _, answer = generate(fake_sglang, input_ids=PROMPT, sampling_params={"temperature": 0, **sampling})
    assert (len(answer["output_ids"]), answer["meta_info"]["finish_reason"], answer["text"]) == (ids, finish, text)
    assert answer["meta_info"]["completion_tokens"] == ids


def test_batches_and_samples_come_as_lists(fake_sglang: FakeSglang) -> None:
    _, batch = generate(fake_sglang, input_ids=[PROMPT, PROMPT], rid="zz")
    assert [item["meta_info"]["id"] for item in batch] == ["zz_0", "zz_1"]
    _, samples = generate(fake_sglang, input_ids=PROMPT, rid="mine", sampling_params={"n": 2})
    assert len({item["meta_info"]["id"] for item in samples} | {"mine"}) == 3
    _, two = generate(
        fake_sglang, input_ids=[PROMPT, PROMPT], sampling_params=[{"max_new_tokens": 1}, {"max_new_tokens": 2}]
    )
    assert [len(item["output_ids"]) for item in two] == [1, 2]
    fake_sglang.knobs.batch = False
    assert generate(fake_sglang, input_ids=[PROMPT])[0] == 400


WANTED = "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5009 tokens"
REFUSED: list[tuple[Any, str, str]] = [
    ("{not json", "a", "json_invalid"),
    ("[1,2]", "a", "Input should be a dictionary"),
    ({"input_ids": 5}, "a", "must be list or null; got int"),
    ({"input_ids": [1.5, 2]}, "a", "elements must be int or list; got float"),
    ({"input_ids": [True]}, "b", "invalid type: boolean"),
    (
        {"input_ids": [5] * 4090, "sampling_params": {"max_new_tokens": 1}},
        "c",
        "Use a shorter input or enable --allow-auto-truncate.",
    ),
    ({"input_ids": ["a"]}, "a", "elements must be int or list; got str"),
    (
        {"input_ids": PROMPT, "sampling_params": {"bogus": 1}},
        "b",
        "unknown field `bogus`, expected one of `max_new_tokens`, `stop`",
    ),
    (
        {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": "ten"}},
        "b",
        'invalid type: string "ten", expected i64',
    ),
    ({"input_ids": []}, "c", "input_ids cannot be empty."),
    ({"sampling_params": {}}, "c", "Either text, input_ids or input_embeds should be provided."),
    (
        {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": -1}},
        "c",
        "max_new_tokens must be at least 0, got -1.",
    ),
    (
        {"input_ids": PROMPT, "sampling_params": {"temperature": -1}},
        "c",
        "temperature must be a non-negative finite number, got -1.",
    ),
    ({"input_ids": PROMPT, "sampling_params": {"top_p": 0}}, "c", "top_p must be in (0, 1], got 0."),
    ({"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 5000}}, "c", WANTED),
    (
        {"input_ids": [100] * 5000},
        "c",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    ),
    (
        {"input_ids": [PROMPT, PROMPT], "rid": ["a", "a"]},
        "c",
        "Duplicate request IDs detected within the request: ['a']",
    ),
]


@pytest.mark.parametrize(("body", "shape", "sentence"), REFUSED)
def test_bad_requests_get_the_recorded_bodies(fake_sglang: FakeSglang, body: Any, shape: str, sentence: str) -> None:
    status, said = ask(fake_sglang, "/generate", body)
    assert status == 400
    if shape == "a":
        assert set(said) == {"object", "message", "type", "param", "code"}
    found = {"a": lambda: said["message"], "b": lambda: said["error"], "c": lambda: said["error"]["message"]}[shape]()
    assert sentence in found


def test_paths_and_methods_that_are_not_there(fake_sglang: FakeSglang) -> None:
    assert ask(fake_sglang, "/nope", {}) == (404, {"detail": "Not Found"})
    assert ask(fake_sglang, "/generate") == (405, {"detail": "Method Not Allowed"})


def test_a_bad_id_takes_the_server_down(fake_sglang: FakeSglang) -> None:
    for bad in (999_999, 151_936, -5):
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            generate(fake_sglang, input_ids=[1, bad])
        assert fake_sglang.dead
        with pytest.raises(ConnectionRefusedError):
            ask(fake_sglang, "/health")
        fake_sglang.restart()
    assert generate(fake_sglang, input_ids=[151_935])[0] == 200


def test_health_and_information(fake_sglang: FakeSglang) -> None:
    assert (
        ask(fake_sglang, "/health") == ask(fake_sglang, "/health_generate") == ask(fake_sglang, "/ready") == (200, "")
    )
    fake_sglang.knobs.health = "starting"
    assert ask(fake_sglang, "/health") == (503, "")
    assert ask(fake_sglang, "/v1/models")[1]["data"][0]["max_model_len"] == 4096
    info = ask(fake_sglang, "/get_model_info")[1]
    assert (info["tokenizer_path"], info["reasoning_parser"], info["tool_call_parser"]) == (
        "models/think",
        "qwen3",
        "qwen",
    )
    assert ask(fake_sglang, "/v1/loads")[1]["loads"][0]["num_running_reqs"] == 0


def test_server_info_leaks_its_keys_as_the_real_one_does(fake_sglang: FakeSglang) -> None:
    fake_sglang.facts.api_key = "sk-secret"
    assert ask(fake_sglang, "/server_info") == (401, {"error": "Unauthorized"})
    assert ask(fake_sglang, "/health")[0] == 200
    info = ask(fake_sglang, "/server_info", key="sk-secret")[1]
    assert info["api_key"] == "sk-secret"
    assert "sk-secret" in info["launch_command"]
    assert (info["version"], info["max_req_input_len"], info["max_total_num_tokens"]) == ("0.5.23", 4090, 40_000)


CHAT = {"model": "think", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 64}


@pytest.mark.parametrize(
    ("change", "content", "reasoning"),
    [
        ({}, "\n\nThe answer is four.", "Let me think about it!"),
        ({"separate_reasoning": False}, SAYS, None),
        ({"max_tokens": 4}, "", "Let me think"),
    ],
)
def test_chat_splits_as_recorded(
    fake_sglang: FakeSglang, change: dict[str, Any], content: str, reasoning: str | None
) -> None:
    status, answer = ask(fake_sglang, "/v1/chat/completions", {**CHAT, **change, "return_token_ids": True})
    assert status == 200
    choice = answer["choices"][0]
    assert (choice["message"]["content"], choice["message"]["reasoning_content"]) == (content, reasoning)
    assert choice["prompt_token_ids"] == PROMPT
    assert choice["response_token_ids"] == RECORDED_ANSWER[: change.get("max_tokens", 64)]


def test_chat_without_parsers_splits_nothing_and_with_them_reads_calls(fake_sglang: FakeSglang) -> None:
    call = '<tool_call>{"name":"f","arguments":{"x":1}}</tool_call>'
    fake_sglang.script = lambda _call: [*fake_sglang.model.vocabulary.encode(call), 151645]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    message = ask(fake_sglang, "/v1/chat/completions", {**CHAT, "tools": tools, "max_tokens": 999})[1]["choices"][0][
        "message"
    ]
    assert [item["function"]["name"] for item in message["tool_calls"]] == ["f"]
    fake_sglang.facts.tool_call_parser = fake_sglang.facts.reasoning_parser = None
    message = ask(fake_sglang, "/v1/chat/completions", {**CHAT, "tools": tools, "max_tokens": 999})[1]["choices"][0][
        "message"
    ]
    assert (message["content"], message["reasoning_content"]) == (call, None)


def test_tokenize_and_detokenize(fake_sglang: FakeSglang) -> None:
    assert ask(fake_sglang, "/tokenize", {"messages": CHAT["messages"]})[1]["tokens"] == PROMPT
    marks = [151667, 10061, 151668, 151645]
    assert ask(fake_sglang, "/detokenize", {"tokens": marks, "skip_special_tokens": False})[1] == {
        "text": "<think>Let</think><|im_end|>"
    }
    assert ask(fake_sglang, "/detokenize", {"tokens": marks})[1] == {"text": "<think>Let</think>"}
    text = "naïve 東京 🙂\n\tx"
    ids = ask(fake_sglang, "/tokenize", {"prompt": text})[1]["tokens"]
    assert ask(fake_sglang, "/detokenize", {"tokens": ids})[1]["text"] == text


def test_a_stream_is_cumulative_and_its_errors_come_as_frames(fake_sglang: FakeSglang) -> None:
    def frames(**body: Any) -> list[Any]:
        _, text = generate(fake_sglang, stream=True, **body)
        found = re.findall(r"^data: (.*)$", text, re.MULTILINE)
        assert found[-1] == "[DONE]"
        return [json.loads(frame) for frame in found[:-1]]

    sent = frames(input_ids=PROMPT)
    assert [frame["output_ids"] for frame in sent] == [RECORDED_ANSWER[:end] for end in range(1, 16)]
    assert [bool(frame["meta_info"]["finish_reason"]) for frame in sent] == [False] * 14 + [True]
    error = {"message": REFUSED[15][2], "type": "invalid_request_error", "code": 400, "retryable": False}
    assert frames(input_ids=[100] * 5000) == [{"error": error}]


def test_json_rules_script_a_process_of_its_own(tmp_path: Path) -> None:
    rules = {
        "rules": [
            {"when": {"contains": 7}, "times": 1, "answer": {"status": 503}},
            {"when": {"numbers": [3]}, "answer": {"die": True}},
        ]
    }
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    (tmp_path / "config.yaml").write_text("api-key: 'sk-file'\n")
    with running(
        "--script",
        str(tmp_path / "rules.json"),
        "--config",
        str(tmp_path / "config.yaml"),
        "--device",
        "cpu",
        "--control",
    ) as (url, child):
        assert ask(url, "/generate", {"input_ids": [7]})[0] == 401
        assert ask(url, "/generate", {"input_ids": [7]}, key="sk-file")[0] == 503
        assert ask(url, "/generate", {"input_ids": [7]}, key="sk-file")[0] == 200
        assert ask(url, "/__fake__/requests")[1]["count"] == 2
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(url, "/generate", {"input_ids": [7]}, key="sk-file")
        assert child.wait(20) == -9


def test_a_told_to_end_process_drains_first() -> None:
    with running("--control") as (url, child):
        ask(url, "/__fake__/script", {"default": {"delay": 0.5}})
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        connection.request("POST", "/generate", json.dumps({"input_ids": PROMPT}))
        while not ask(url, "/__fake__/requests")[1]["live"]:
            pass
        child.terminate()
        response = connection.getresponse()
        assert response.status == 200
        response.read()
        connection.close()
        assert child.wait(20) == 0


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The fake as a process; its URL is read from the log, as a person would."""
    command = [sys.executable, "-m", "tests.support.fake_sglang", "--port", "0", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            url = ""
            for line in child.stderr:
                if found := re.search(r"running on (http://\S+)", line):
                    url = found[1]
                if "fired up" in line:
                    break
            yield url, child
        finally:
            child.kill()


def test_faults_reach_the_wire(fake_sglang: FakeSglang) -> None:
    fake_sglang.answers(
        Answer(output_ids=[2, 3, 10, 11], exact=True, completion_tokens=2), Answer(prompt_token_ids=[1]), Answer(cut=5)
    )
    assert generate(fake_sglang, input_ids=[1, 2, 3])[1]["meta_info"]["completion_tokens"] == 2
    assert generate(fake_sglang, input_ids=[1, 2], return_prompt_token_ids=True)[1]["prompt_token_ids"] == [1]
    with pytest.raises(http.client.IncompleteRead):
        generate(fake_sglang, input_ids=[1])
