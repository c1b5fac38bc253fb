"""The routes that know text: chat with reasoning and tool parsers as SGLang splits, tokenize and detokenize."""

import json
import re
import time
import uuid
from typing import Any

from tests.support.fake_sglang.errors import Refused
from tests.support.fake_sglang.model import Model
from tests.support.fake_sglang.wire import Response

_TOOL_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


async def answer(model: Model, path: str, body: dict[str, Any]) -> Response | None:
    """The response, or None for a path that is not here."""
    if path in {"/tokenize", "/v1/tokenize"}:
        return _tokenize(model, body)
    if path in {"/detokenize", "/v1/detokenize"}:
        skip = body.get("skip_special_tokens", True)
        return Response.of({"text": model.vocabulary.decode(body["tokens"], skip_special=skip)})
    if path == "/v1/chat/completions":
        return await _chat(model, body)
    return None


def _render(model: Model, body: dict[str, Any]) -> list[int]:
    kwargs = dict(body.get("chat_template_kwargs") or {})
    return model.vocabulary.render(
        body["messages"], body.get("tools"), kwargs, generate=body.get("add_generation_prompt", True)
    )


def _tokenize(model: Model, body: dict[str, Any]) -> Response:
    if model.facts.skip_tokenizer_init:
        raise Refused(500, "plain", "Internal Server Error")
    ids = _render(model, body) if "messages" in body else model.vocabulary.encode(body["prompt"])
    return Response.of(
        {"tokens": ids, "count": len(ids), "max_model_len": model.vocabulary.max_length or model.facts.context_length}
    )


async def _chat(model: Model, body: dict[str, Any]) -> Response:
    if model.facts.skip_tokenizer_init:
        raise Refused(500, "plain", "Internal Server Error")
    if not body.get("messages"):
        raise Refused(400, "openai", "Messages cannot be empty.")
    prompt_ids = _render(model, body)
    sampling = {"max_new_tokens": body.get("max_completion_tokens", body.get("max_tokens"))}
    sampling |= {
        key: body[key]
        for key in ("temperature", "top_p", "top_k", "stop", "stop_token_ids", "ignore_eos")
        if key in body
    }
    done = await model.generate(prompt_ids, sampling, body, "/v1/chat/completions", body.get("rid"))
    tools = body.get("tools") if body.get("tool_choice") != "none" else None
    text = model.text_of(done, sampling, skip_special=bool(body.get("skip_special_tokens", True)) and not tools)
    reasoning: str | None = None
    if model.facts.reasoning_parser and body.get("separate_reasoning", True):
        prompt_text = model.vocabulary.decode(prompt_ids, skip_special=False)
        reasoning, text = split_reasoning(text, forced=prompt_text.rstrip("\n").endswith("<think>"))
    calls: list[dict[str, Any]] | None = None
    if tools and model.facts.tool_call_parser:
        text, calls = _split_calls(text)
    matched = done.finish_reason.get("matched")
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": reasoning}
    if calls:
        message["tool_calls"] = calls
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if calls else done.finish_reason["type"],
        "matched_stop": matched,
    }
    if body.get("return_token_ids"):
        choice |= {"prompt_token_ids": prompt_ids, "response_token_ids": done.output_ids}
    thought = 0 if reasoning is None else len(model.vocabulary.encode(reasoning))
    n = len(done.output_ids)
    version = model.facts.weight_version
    return Response.of(
        {
            "id": done.rid,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", "default"),
            "choices": [choice],
            "usage": {
                "prompt_tokens": len(prompt_ids),
                "total_tokens": len(prompt_ids) + n,
                "completion_tokens": n,
                "prompt_tokens_details": None,
                "reasoning_tokens": thought,
                "completion_tokens_details": {"reasoning_tokens": thought} if thought else None,
            },
            "metadata": {"weight_version": version, "weight_versions": [{"version": version, "start": 0, "end": n}]},
        }
    )


def split_reasoning(
    text: str, *, forced: bool, start: str = "<think>", end: str = "</think>", tool: str = "<tool_call>"
) -> tuple[str | None, str]:
    """Reasoning and content as SGLang's base parser splits text: nothing is split where neither the prompt nor the text opens."""
    if not forced and start not in text:
        return None, text
    while text.startswith(start):
        text = text.removeprefix(start)
    if end not in text:
        at = text.find(tool)
        return (text, "") if at < 0 else (text[:at], text[at:])
    reasoning, _, content = text.partition(end)
    return reasoning or None, content


def _split_calls(text: str) -> tuple[str, list[dict[str, Any]]]:
    calls: list[dict[str, Any]] = []
    for match in _TOOL_CALL.finditer(text):
        try:
            call = json.loads(match[1])
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        except (ValueError, KeyError):
            continue
        calls.append(
            {"id": f"call_{uuid.uuid4().hex[:24]}", "index": len(calls), "type": "function", "function": function}
        )
    return (text[: text.index("<tool_call>")].rstrip("\n") if calls else text), calls
