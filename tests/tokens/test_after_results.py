"""How a prompt leaves the think block after a tool's result: what an earlier turn thought does not count for the next answer."""

import pytest

from inference.tokens.formats import all_formats
from tests.support.families import Family

_HARMONY_RESULT = (
    "<|start|>assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.f"
    "<|message|>{}<|call|><|start|>functions.f to=assistant<|channel|>commentary<|message|>r<|end|><|start|>assistant"
)
_V3_RESULT = (
    "<｜Assistant｜><think>a</think>x<｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁outputs▁begin｜>"
    "<｜tool▁output▁begin｜>r<｜tool▁output▁end｜><｜tool▁outputs▁end｜>"
)
_KIMI_RESULT = (
    "<|im_assistant|>assistant<|im_middle|><think>a</think>x<|im_end|><|im_system|>tool<|im_middle|>r<|im_end|>"
    "<|im_assistant|>assistant<|im_middle|>"
)
_CHATML_RESULT = (
    "<|im_start|>assistant\n<think>a</think>x<|im_end|>\n<|im_start|>user\n<tool_response>r</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n"
)
AFTER_RESULTS = [
    *((name, _CHATML_RESULT, "none") for name in ("qwen3", "qwen3_coder", "qwen35", "nemotron", "hermes")),
    ("qwen35", f"{_CHATML_RESULT}<think>\n", "open"),
    (
        "kimi_k2",
        _KIMI_RESULT,
        "none",
    ),
    *(
        (
            name,
            _V3_RESULT,
            "none",
        )
        for name in ("deepseek_r1", "deepseek_v3")
    ),
    (
        "deepseek_v31",
        "<｜Assistant｜></think>x<｜tool▁calls▁end｜><｜end▁of▁sentence｜><｜tool▁output▁begin｜>r<｜tool▁output▁end｜>",
        "none",
    ),
    (
        "deepseek_v32",
        "<｜Assistant｜><think>a</think>x<｜end▁of▁sentence｜><function_results>r</function_results>",
        "closed",
    ),
    ("deepseek_v32", "<｜Assistant｜><think>a</think>x<｜end▁of▁sentence｜>r</function_results>\n\n<think>", "open"),
    ("glm45", "<|assistant|>\n<think>a</think>x<|observation|>\n<tool_response>r</tool_response><|assistant|>", "none"),
    ("glm45", "<|assistant|><think>a</think>x<|observation|>r<|assistant|>\n<think></think>", "closed"),
    ("minimax_m2", "]~b]ai\n<think>a</think>x[e~[\n]~b]tool\n<response>r</response>[e~[\n]~b]ai\n<think>\n", "open"),
    ("minimax_m2", "]~b]ai\n<think>a</think>x[e~[\n]~b]tool\n<response>r</response>[e~[\n]~b]ai\n", "none"),
    ("magistral", "[/INST][THINK]a[/THINK]x</s>[TOOL_RESULTS]r[/TOOL_RESULTS]", "none"),
    ("step3", "<|BOT|>assistant\n<think>a</think>x<|EOT|><|BOT|>tool_response\nr<|EOT|><|BOT|>assistant\n", "none"),
    ("hunyuan", "<｜hy_Assistant｜><think>a</think>x<｜hy_eos｜><｜hy_User｜>r<｜hy_Assistant｜>", "none"),
    ("hunyuan", "<｜hy_Assistant｜><think>a</think>x<｜hy_eos｜><｜hy_User｜>r<｜hy_Assistant｜><think>", "open"),
    ("hunyuan", "<|startoftext|>q<|extra_0|><think>a</think>x<|eos|><|startoftext|>r<|extra_0|>", "none"),
    ("hunyuan", "<|startoftext|>q<|extra_0|><think>a</think>x<|eos|>r<|extra_0|><think>\n\n</think>\n", "closed"),
    (
        "gpt_oss",
        _HARMONY_RESULT,
        "none",
    ),
]


@pytest.mark.parametrize(("name", "prompt", "state"), AFTER_RESULTS)
def test_what_was_thought_before_a_tools_result_does_not_count_for_the_answer_after_it(
    families: dict[str, Family], name: str, prompt: str, state: str
) -> None:
    family = families[name]
    assert family.bound.segment(family.ids(prompt), family.ids("Hi")).prompt_state == state


def test_every_thinking_family_is_asked_about_its_tools_results() -> None:
    assert {item.name for item in all_formats() if item.think or item.messages} == {
        name for name, _, _ in AFTER_RESULTS
    }
