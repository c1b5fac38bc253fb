"""Run by SGLang's own interpreter: what its parsers make of the texts on stdin.

Reads JSON {"reasoning": [[key, forced, text], …], "calls": [[key, text], …], "tools": […], "thinking": [[key, template,
arguments], …]} and writes JSON {"reasoning": [[reasoning, content], …], "calls": [[[name, arguments], …], …], "thinking":
[forced, …]} in the same order.
"""

import json
import logging
import sys
from types import SimpleNamespace


def main() -> None:
    logging.disable()
    from sglang.srt.entrypoints.openai.protocol import ChatCompletionRequest, Tool
    from sglang.srt.entrypoints.openai.serving_chat import OpenAIServingChat
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser
    from sglang.srt.parser.template_detection import detect_reasoning_pattern

    asked = json.load(sys.stdin)
    tools = [Tool(**tool) for tool in asked["tools"]]
    reasoning = [
        ReasoningParser(model_type=key, stream_reasoning=False, force_reasoning=forced).parse_non_stream(text)
        for key, forced, text in asked["reasoning"]
    ]
    calls = [
        [(call.name, call.parameters) for call in FunctionCallParser(tools, key).parse_non_stream(text)[1]]
        for key, text in asked["calls"]
    ]
    thinking = []
    for key, template, arguments in asked["thinking"]:
        forced, config = detect_reasoning_pattern(template)
        route = SimpleNamespace(
            reasoning_parser=key,
            template_manager=SimpleNamespace(reasoning_config=config),
            _reasoning_detector=ReasoningParser(model_type=key, force_reasoning=True).detector,
        )
        request = ChatCompletionRequest(
            model="m", messages=[{"role": "user", "content": "hi"}], chat_template_kwargs=arguments or None
        )
        thinking.append(forced or OpenAIServingChat._get_reasoning_from_request(route, request))
    json.dump({"reasoning": reasoning, "calls": calls, "thinking": thinking}, sys.stdout)


if __name__ == "__main__":
    main()
