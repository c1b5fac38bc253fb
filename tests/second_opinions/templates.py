"""Chat templates by how they switch thinking, with the parser of each and what a request may say."""

from dataclasses import dataclass
from typing import Any

import jinja2

from tests.support import tiny_tokenizers as tiny

DEEPSEEK_SWITCH = (
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}{{ bos_token }}"
    "{%- for m in messages %}{{ '<｜User｜>' + m.content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% if thinking %}{{ '<think>' }}{% else %}{{ '</think>' }}{% endif %}{% endif %}"
)
"""As DeepSeek V3.1: off unless asked for, and the prompt says so either way."""
PLAIN = tiny.CHATML.split("{%- if enable_thinking is defined", 1)[0] + "{% endif %}"
"""ChatML that knows nothing of thinking, as Qwen3's instruct models"""


@dataclass(frozen=True)
class Switch:
    """A template on a family's vocabulary, SGLang's parser key, and the template arguments of the request."""

    family: str
    key: str
    template: str
    arguments: tuple[tuple[str, bool], ...] = ()

    def prompt(self) -> str:
        messages = [{"role": "user", "content": "hi"}]
        values: dict[str, Any] = {"messages": messages, "add_generation_prompt": True, "bos_token": "", **self.asked()}
        return jinja2.Environment(autoescape=False).from_string(self.template).render(values)  # noqa: S701

    def asked(self) -> dict[str, bool]:
        return dict(self.arguments)


SWITCHES = (
    Switch("qwen3", "qwen3", tiny.CHATML),
    Switch("qwen3", "qwen3", tiny.CHATML, (("enable_thinking", True),)),
    Switch("qwen3", "qwen3", tiny.CHATML, (("enable_thinking", False),)),
    Switch("qwen3", "qwen3", tiny.CHATML_OPENED),
    Switch("qwen3", "qwen3", tiny.CHATML_OPENED, (("enable_thinking", False),)),
    Switch("qwen3", "qwen3", PLAIN),
    Switch("qwen3", "glm45", tiny.CHATML),
    Switch("qwen3", "glm45", tiny.CHATML, (("enable_thinking", False),)),
    Switch("kimi_k2", "kimi_k2", tiny.KIMI_TEMPLATE),
    Switch("kimi_k2", "kimi_k2", tiny.KIMI_TEMPLATE, (("thinking", False),)),
    Switch("deepseek_r1", "deepseek-v3", DEEPSEEK_SWITCH),
    Switch("deepseek_r1", "deepseek-v3", DEEPSEEK_SWITCH, (("thinking", True),)),
    Switch("deepseek_r1", "deepseek-v3", DEEPSEEK_SWITCH, (("thinking", False),)),
    Switch("deepseek_r1", "deepseek-v4", DEEPSEEK_SWITCH, (("thinking", True),)),
)
