"""The families that `renderers` reads too: its name for each, its prompts, and calls as the family writes them."""

from dataclasses import dataclass

from inference.tokens.formats import all_formats

OPEN, SHUT, NONE = "open", "closed", "none"


@dataclass(frozen=True)
class Peer:
    """Their renderer for one of our families, and how the prompt ends in each state of the think block."""

    config: str
    prompts: dict[str, str]
    calls: tuple[str, ...] = ()
    """Well-formed and broken calls, each with all of its markers"""
    usual: tuple[str, ...] = ()
    """Whole answers of the usual kind, where they are not thought, answer and calls"""
    lead: str = ""
    """What they want to see of the prompt at the beginning of an answer"""


def chatml(**prompts: str) -> dict[str, str]:
    turn = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    return {state: turn + ending for state, ending in prompts.items()}


def hermes(payload: str) -> str:
    return f"<tool_call>\n{payload}\n</tool_call>"


def xml(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def kimi(*calls: tuple[str, str]) -> str:
    inner = "".join(
        f"<|tool_call_begin|>{head}<|tool_call_argument_begin|>{body}<|tool_call_end|>" for head, body in calls
    )
    return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"


def deepseek(*calls: tuple[str, str]) -> str:
    inner = "".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{body}\n```<｜tool▁call▁end｜>"
        for name, body in calls
    )
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


HERMES = (
    hermes('{"name": "f", "arguments": {"x": 1, "y": "é\\n", "z": [1.50, null, true]}}'),
    hermes('{"name": "f", "arguments": {}}'),
    hermes('{"name": "f", "arguments": {"p": "C:\\path"}}'),
    hermes('{"name": "f", "arguments": {"x": 1}'),
    hermes('{"arguments": {"x": 1}}'),
    hermes(""),
)
FUNCTION_XML = (
    xml("<function=f>\n<parameter=x>\n1\n</parameter>\n<parameter=y>\na < b\n</parameter>\n</function>"),
    xml("<function=f>\n</function>"),
    xml("<parameter=x>\n1\n</parameter>"),
    xml(""),
)
GLM = (
    "<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "<tool_call>g<arg_key>y</arg_key><arg_value>a b</arg_value></tool_call>",
    "<tool_call>f\n<arg_key>x</arg_key>\n</tool_call>",
    "<tool_call>f</tool_call>",
    "<tool_call></tool_call>",
)
HARMONY = (
    "<|channel|>analysis<|message|>plan<|end|>",
    "<|start|>assistant<|channel|>final<|message|>Answer<|return|>",
    '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1}<|call|>',
    '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1<|call|>',
    "<|start|>assistant to=functions.g<|channel|>commentary<|message|>{}<|call|>",
    "<|start|>assistant<|channel|>commentary<|message|>So:<|end|>",
    "<|start|>assistant<|channel|>final<|message|>cut",
)
USUAL_HARMONY = (
    HARMONY[0] + HARMONY[1],
    HARMONY[0] + HARMONY[2],
    HARMONY[0] + HARMONY[4],
    HARMONY[0] + HARMONY[5] + HARMONY[2],
    HARMONY[0] + HARMONY[5] + HARMONY[1],
    HARMONY[0] + HARMONY[6],
    HARMONY[1].removeprefix("<|start|>assistant"),
)
INVOKES = (
    '<minimax:tool_call>\n<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>\n</minimax:tool_call>',
    '<minimax:tool_call><invoke name="f"></invoke><invoke name="g"><parameter name="y">a</parameter></invoke></minimax:tool_call>',
    "<minimax:tool_call>\n</minimax:tool_call>",
)

PEERS: dict[str, Peer] = {
    "qwen3": Peer("qwen3", chatml(none="", open="<think>\n", closed="<think>\n\n</think>\n\n"), HERMES),
    "qwen3_coder": Peer("qwen3.5", chatml(none=""), FUNCTION_XML),
    "qwen35": Peer("qwen3.5", chatml(none="", open="<think>\n", closed="<think>\n\n</think>\n\n"), FUNCTION_XML),
    "nemotron": Peer("nemotron-3", chatml(open="<think>\n", closed="<think></think>"), FUNCTION_XML),
    "kimi_k2": Peer(
        "kimi-k2",
        {
            state: "<|im_user|>user<|im_middle|>hi<|im_end|><|im_assistant|>assistant<|im_middle|>" + ending
            for state, ending in ((NONE, ""), (OPEN, "<think>"), (SHUT, "<think></think>"))
        },
        (
            kimi(("functions.f:0", '{"x": 1}')),
            kimi(("functions.f:0", "{}"), ("functions.g:1", '{"y": "a"}')),
            kimi(("functions.f:0", '{"x": 1')),
            kimi(("", "{}")),
            kimi(),
        ),
    ),
    "deepseek_r1": Peer(
        "deepseek-r1",
        {
            state: "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>" + ending
            for state, ending in ((NONE, ""), (OPEN, "<think>\n"), (SHUT, "<think></think>"))
        },
        (
            deepseek(("f", '{"x": 1}')),
            deepseek(("f", "{}"), ("g", '{"y": "a"}')),
            deepseek(("f", '{"x": 1')),
            deepseek(),
        ),
    ),
    "deepseek_v3": Peer(
        "deepseek-v3",
        {NONE: "<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜>"},
        (deepseek(("f", '{"x": 1}')), deepseek(("f", "{}"), ("g", '{"y": "a"}')), deepseek(("f", '{"x": 1'))),
    ),
    "glm45": Peer("glm-4.5", {OPEN: "[gMASK]<sop><|user|>\nhi<|assistant|>\n<think>"}, GLM),
    "hunyuan": Peer(
        "hy3",
        {OPEN: "<｜hy_User｜>hi<｜hy_Assistant｜><think>", NONE: "<｜hy_User｜>hi<｜hy_Assistant｜>"},
        (
            "<tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n</tool_calls>",
            "<tool_calls><tool_call>f<tool_sep></tool_call></tool_calls>",
            "<tool_calls><tool_call>f<tool_sep><arg_key>x</arg_key></tool_call><tool_call>g<tool_sep></tool_call></tool_calls>",
            "<tool_calls><tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call></tool_calls>",
        ),
    ),
    "gpt_oss": Peer(
        "gpt-oss",
        {NONE: "<|start|>user<|message|>hi<|end|><|start|>assistant"},
        HARMONY,
        USUAL_HARMONY,
        "<|start|>assistant",
    ),
    "minimax_m2": Peer(
        "minimax-m2",
        {OPEN: "]~b]user\nhi[e~[\n]~b]ai\n<think>\n", NONE: "]~b]user\nhi[e~[\n]~b]ai\n"},
        INVOKES,
    ),
}


DECLARED = [name for name in sorted(PEERS) if name in {item.name for item in all_formats()}]
