"""A whole app with a finished run in it: real ids of hostile, broken, long and plain answers, and people of each role."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.auth.tokens import create_token
from api.auth.users import create_user
from api.main import create_app
from inference.review.tags import create_tag
from inference.settings import Settings
from tests.support.fake_sglang import Answer, FakeSglang
from tests.support.fake_sglang.script import Call
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.workshop import MODEL, Workshop

BASE = "http://127.0.0.1"
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"> &amp; \u202egpj.exe\u202c "
    "zero\u200bwidth bell\x07 nul\0 tab\there cr\r\nline\u2028sep \ufeff 🍂 漢字 👩\u200d💻 e\u0301 ' \" 12345678901234567890"
)
CALL = '{"name": "get_time", "arguments": {"city": "Oslo", "id": 12345678901234567890}}'
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_time", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]
ANSWERS = (
    "<think>The user wants the time.\n\nSo I call the tool.</think>\n\nThe answer is four.<|im_end|>",
    f"<think>Hm.</think>\n\n<tool_call>\n{CALL}\n</tool_call><|im_end|>",
    f"<think>{HOSTILE}</think>\n\n{HOSTILE}<|im_end|>",
    '<think></think>\n\n<tool_call>\n{"name": "get_time", "arguments": {"city": </tool_call><|im_end|>',
    "<think>step one, step two, " + "step three " * 30,
)
_SPECIAL = re.compile(r"(<think>|</think>|<tool_call>|</tool_call>|<\|[a-z_]+\|>)")


@dataclass(frozen=True)
class Kit:
    """What the model of a site is and says: arguments of `make_tokenizer`, and its answers in turn."""

    answers: tuple[str, ...] = ANSWERS
    tokenizer: dict[str, Any] = field(default_factory=dict)


HARMONY = Kit(
    answers=(
        (
            "<|channel|>analysis<|message|>The user wants it.<|end|><|start|>assistant<|channel|>commentary "
            'to=functions.get_time <|constrain|>json<|message|>{"city": "Oslo"}<|call|>'
        ),
        "<|channel|>analysis<|message|>Four.<|end|><|start|>assistant<|channel|>final<|message|>It is four.<|return|>",
        "<|channel|>nonsense header<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
        "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>analysis<|message|>Hm.<|return|>",
        "<|channel|>final<|message|>Plain.<|return|>",
    ),
    tokenizer={
        "added": tuple(
            f"<|{name}|>" for name in ("start", "channel", "message", "constrain", "end", "return", "call", "endoftext")
        ),
        "template": (
            "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
            "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
        ),
        "eos": "<|return|>",
        "stop": ("<|call|>",),
        "config": {"model_type": "gpt_oss"},
    },
)
"""gpt-oss: a call, an answer, a header nobody can read, an answer without final, and one without analysis"""


@dataclass(frozen=True)
class Person:
    """Somebody and their token."""

    id: int
    name: str
    token: str


@dataclass(frozen=True)
class Site:
    """The app, what is in it, and who may look."""

    app: FastAPI
    shop: Workshop
    run_id: int
    set_id: int
    backend_id: int
    samples: tuple[int, ...]
    people: dict[str, Person]

    @contextlib.contextmanager
    def as_(self, role: str) -> Iterator[TestClient]:
        """A browser of that role, logged in; forms need the token of `csrf_of`."""
        with contextlib.closing(TestClient(self.app, base_url=BASE, follow_redirects=False)) as client:
            client.headers["accept"] = "text/html,application/xhtml+xml"
            answer = client.post("/login", data={"token": self.people[role].token, "next": "/"})
            assert answer.status_code == 303
            yield client

    def sample(self, number: int) -> str:
        """The page of the sample with answer `number`."""
        return f"/samples/{self.samples[number]}"


def csrf_of(client: TestClient) -> str:
    """The token that this browser's forms carry."""
    return str(client.get("/api/v1/me").json()["csrf"])


def encode(shop: Workshop, text: str) -> list[int]:
    """The ids of a text in which special tokens are themselves."""
    tokenizer = shop.ctx.tokenizers.get(
        MODEL if (Path(MODEL)).is_absolute() else str(shop.ctx.settings.model_roots[0] / MODEL)
    )
    ids: list[int] = []
    for part in _SPECIAL.split(text):
        number = tokenizer.id_of(part) if _SPECIAL.fullmatch(part) else None
        ids += [number] if number is not None else tokenizer.encode(part)
    return ids


@contextlib.contextmanager
def open_site(folder: Path, kit: Kit | None = None) -> Iterator[Site]:
    """Build it, with a Qwen3-like model or another: the app without its worker, a fake server, and one run worked off in this process."""
    models = folder / "models"
    models.mkdir()
    kit = kit or Kit()
    make_tokenizer(models / MODEL, **kit.tokenizer)
    plain = {name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}
    settings = Settings(_env_file=None, **{**plain, "data_dir": folder / "data", "model_roots": [models], "port": 0})
    app = create_app(settings, worker=False)
    shop = Workshop(app.state.context)
    people = {}
    with shop.ctx.db.write() as session:
        for role in ("reviewer", "operator", "admin"):
            user = create_user(session, f"{role} <b>&", role)
            assert user.id is not None
            people[role] = Person(user.id, user.name, create_token(session, user.id)[1])
        second = create_user(session, "jon", "reviewer")
        assert second.id is not None
        people["second"] = Person(second.id, second.name, create_token(session, second.id)[1])
        for name in ("wrong arguments", "loop", "<i>odd</i>"):
            create_tag(session, name, None, people["operator"].id)
    with FakeSglang() as fake:
        fake.script = lambda call: _answer(shop, call, kit.answers)
        set_id = shop.prompts(10, ("facts", "a <b>,&"), tools=TOOLS)
        backend_id = shop.backend(fake)
        run_id = shop.launch(set_id, backend_id, concurrency=1, guard=None)
        with ThreadPoolExecutor(1) as thread:  # a browser's driver keeps an event loop running in this one
            thread.submit(shop.work, run_id).result()
    samples = tuple(sample.id for sample in shop.samples(run_id) if sample.id is not None)
    yield Site(app, shop, run_id, set_id, backend_id, samples, people)
    shop.ctx.ids.close()
    shop.ctx.db.dispose()


def _answer(shop: Workshop, call: Call, answers: Sequence[str]) -> Answer:
    text = answers[(call.number - 1) % len(answers)]
    ids = encode(shop, text)
    if text.endswith("|>"):
        return Answer(output_ids=ids)
    return Answer(output_ids=ids, exact=True, finish_reason={"type": "length", "length": len(ids)})
