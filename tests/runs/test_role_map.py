"""A role that the template does not know is rendered under another only where the run says so, and that is recorded."""

import pytest

from inference.runs.settings import RunSettings, fingerprint
from tests.support.fake_sglang import FakeSglang
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.workshop import MODEL, Workshop

KNOWS_SYSTEM = (
    "{% for m in messages %}{% if m.role in ['system', 'user'] %}<|im_start|>{{ m.role + '\n' + m.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}<|im_start|>assistant\n"
)
MESSAGES = [
    {"role": "developer", "content": "Answer in French, please."},
    {"role": "user", "content": "What time is it?"},
]


@pytest.mark.parametrize("role_map", [{}, {"developer": "system"}])
def test_developer_is_system_only_by_a_recorded_choice(
    shop: Workshop, fake_sglang: FakeSglang, role_map: dict[str, str]
) -> None:
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template=KNOWS_SYSTEM)
    asked = {"role_map": role_map} if role_map else {}
    run_id = shop.launch(shop.prompts(1, messages=MESSAGES), shop.backend(fake_sglang), guard=None, **asked)
    shop.work(run_id)
    settings = RunSettings.model_validate(shop.run(run_id).settings)
    assert settings.role_map == role_map
    assert settings.sources["role_map"] == ("request" if role_map else "default: every role as it is")
    (sample,) = shop.samples(run_id)
    codes = {row.code for row in shop.flags(run_id)}
    if role_map:
        assert sample.state == "done"
        assert "role_mapped" in codes
        assert "content_lost" not in codes
    else:
        assert (sample.state, sample.error_code) == ("failed", "content_lost")
    plain = settings.model_copy(update={"role_map": {}})
    assert (fingerprint(settings) == fingerprint(plain)) == (not role_map)


def test_a_long_conversation_keeps_the_first_few_of_its_warnings(shop: Workshop, fake_sglang: FakeSglang) -> None:
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template=KNOWS_SYSTEM)
    messages = [{"role": "developer", "content": f"Rule number {n}."} for n in range(50)] + MESSAGES[1:]
    backend = shop.backend(fake_sglang)
    asked = {"role_map": {"developer": "system"}}
    run_id = shop.launch(shop.prompts(1, messages=messages), backend, guard=None, **asked)
    shop.work(run_id)
    mapped = [row.message for row in shop.flags(run_id) if row.code == "role_mapped"]
    assert len(mapped) == 20
    assert mapped[-1].endswith("(and 30 more like it)")
