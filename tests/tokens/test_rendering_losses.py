"""What a template leaves out, moves, repeats or prints as Python is told, at the message it is about; what it writes is not."""

import json
from pathlib import Path

import numpy as np
import pytest

from inference.tokens.cache import TokenizerCache
from inference.tokens.errors import TokensError
from inference.tokens.rendering import flat_ids, render
from tests.support import tiny_tokenizers as tiny
from tests.support.tokenizers import real_tokenizer
from tests.tokens import rendering as made
from tests.tokens.rendering import USER, Make, calling, codes, tool, warned

ALTERNATING = (
    "{% for m in messages %}{% if loop.index0 > 0 and m.role == messages[loop.index0 - 1].role %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}"
)
FRONT_ONLY = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning') }}{% endif %}{{ m.content }}{% endfor %}"
)
BEFORE_LAST = (
    "{% for m in messages if m.role != 'system' %}{% if loop.last %}{{ messages[0].content }}\n\n{% endif %}{{ m.content }}"
    "{% endfor %}"
)
"""As Mistral's templates put the system message: before the last question"""
SYSTEM = {"role": "system", "content": "S2"}


def assistant(content: str, **more: str) -> dict[str, str]:
    return {"role": "assistant", "content": content, **more}


def user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("turns", [[USER, assistant("one"), assistant("two")], [USER, USER, assistant("one"), USER]])
def test_turns_of_one_role_in_a_row_stay_apart_or_are_refused_in_the_templates_words(
    make: Make, turns: list[dict[str, str]]
) -> None:
    found = render(real_tokenizer("qwen3"), turns)
    assert found.text.count("<|im_start|>") == len(turns) + 1
    assert codes(found) == []
    with pytest.raises(TokensError, match="Conversation roles must alternate") as caught:
        render(make(ALTERNATING), turns)
    assert (caught.value.code, caught.value.field) == ("template_failed", "messages")


def test_a_system_message_in_the_middle_is_shown_as_the_template_treats_it(make: Make) -> None:
    turns = [user("one"), SYSTEM, user("three")]
    in_place = render(real_tokenizer("qwen3"), turns)
    assert in_place.text.index("one") < in_place.text.index("S2") < in_place.text.index("three")
    assert codes(in_place) == []
    moved = render(real_tokenizer("deepseek_v3"), turns)
    assert moved.text.index("S2") < moved.text.index("one")
    assert [(item.code, item.where) for item in moved.warnings] == [("system_moved", 1)]
    assert "before messages[0]" in moved.warnings[0].message
    with pytest.raises(TokensError, match="must be at the beginning"):
        render(make(FRONT_ONLY), turns)
    assert warned(make(FRONT_ONLY), turns[1:]) == []


def test_a_system_message_put_before_the_last_question_is_moved_only_where_turns_lie_between(make: Make) -> None:
    late = make(BEFORE_LAST)
    assert warned(late, [SYSTEM, user("one"), assistant("two"), user("three")]) == [("system_moved", 0)]
    assert warned(late, [SYSTEM, user("one")]) == []


def test_a_role_map_renders_a_role_where_it_stands_and_says_so() -> None:
    turns = [user("one"), assistant("two"), {"role": "developer", "content": "Be brief."}, user("three")]
    real = real_tokenizer("qwen3")
    assert warned(real, turns) == [("content_lost", 2)]
    found = render(real, turns, role_map={"developer": "system", "critic": "user"})
    assert [(item.code, item.where) for item in found.warnings] == [("role_mapped", 2)]
    assert (
        found.ids.tolist()
        == render(real, [*turns[:2], {"role": "system", "content": "Be brief."}, turns[3]]).ids.tolist()
    )


@pytest.mark.parametrize("content", ["a", "hi there", "What time is it in Oslo, please?"])
def test_a_text_that_stands_elsewhere_too_is_lost_all_the_same(content: str) -> None:
    """Found by its mark: the text itself is in the prompt, from another message."""
    turns = [{"role": "function", "content": content}, user(content)]
    assert warned(real_tokenizer("qwen3"), turns) == [("content_lost", 0)]


def test_a_text_that_the_template_cuts_short_or_changes_is_lost(make: Make) -> None:
    long = user("A question that is much longer than the template allows.")
    assert warned(make("{{ messages[0].content[:20] }}"), [long]) == [("content_lost", 0)]
    assert warned(make("{{ messages[0].content | upper }}"), [long]) == [("content_lost", 0)]
    assert warned(make("{{ messages[0].content | trim }}"), [user(f"  {long['content']}\n\n")]) == []
    assert warned(make("{{ messages[0].content | tojson }}"), [user('Say "é"\n' + long["content"])]) == []


def test_a_word_that_switches_reasoning_may_be_taken_out(make: Make) -> None:
    heeds = make("{{ messages[0].content | replace('/no_think', '') }}")
    assert warned(heeds, [user("What time is it? /no_think Please.")]) == []
    assert warned(make("{{ messages[0].content | replace('Please', '') }}"), [user("/no_think Please.")]) == [
        ("content_lost", 0)
    ]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_of_earlier_turns_is_told_and_the_answer_is_not_lost(key: str) -> None:
    turns = [USER, assistant("Noon.", **{key: "a long thought"}), user("Thanks!"), assistant("Bye."), user("Hm?")]
    found = render(real_tokenizer("qwen3"), turns)
    assert [(item.code, item.where) for item in found.warnings] == [("reasoning_stripped", 1)]
    assert "Noon." in found.text
    assert "a long thought" not in found.text


def test_inline_reasoning_that_a_template_takes_out_is_no_loss_in_a_family_without_reasoning(make: Make) -> None:
    strips = make("{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}")
    turns = [USER, assistant("<think>a long thought</think>Noon."), user("Thanks!")]
    assert warned(strips, turns, token_format="llama3") == [("reasoning_stripped", 1)]


def test_reasoning_that_is_written_twice_is_told() -> None:
    """A field and the same in the text: the template takes the one and leaves the other in."""
    turns = [USER, assistant("<think>a thought</think>Noon.", reasoning_content="a thought")]
    found = render(real_tokenizer("qwen3"), turns, add_generation_prompt=False)
    assert [(item.code, item.where) for item in found.warnings] == [("reasoning_doubled", 1)]
    assert found.text.count("a thought") == 2
    once = [USER, assistant("Noon.", reasoning_content="a thought")]
    assert codes(render(real_tokenizer("qwen3"), once, add_generation_prompt=False)) == []


def test_ids_are_those_of_the_whole_conversation_and_never_put_together_from_prefixes() -> None:
    """Qwen3 writes an empty think pair behind the last question only, so a prefix renders to other ids than it has in the whole."""
    real = real_tokenizer("qwen3")
    turns = [USER, assistant("yo"), user("and in Rome?")]
    prefix = render(real, turns[:2], add_generation_prompt=False)
    whole = render(real, turns)
    assert "<think>" in prefix.text
    assert "<think>" not in whole.text
    assert whole.ids[: len(prefix.ids)].tolist() != prefix.ids.tolist()
    theirs = real.backend.apply_chat_template(turns, add_generation_prompt=True)
    assert whole.ids.tolist() == flat_ids(theirs).tolist()


def test_answers_of_either_version_of_transformers_become_flat_ids() -> None:
    from transformers import BatchEncoding

    ids = [1, 200_012, 3]

    class Tensor:
        def tolist(self) -> list[list[int]]:
            return [ids]

    answers = [
        BatchEncoding({"input_ids": ids}),
        BatchEncoding({"input_ids": [ids]}),
        {"input_ids": Tensor()},
        Tensor(),
    ]
    for answer in answers:
        assert flat_ids(answer).tolist() == ids
        assert flat_ids(answer).dtype == np.uint32


def test_a_real_tokenizer_without_a_template_is_refused_and_nothing_put_in_its_place() -> None:
    with pytest.raises(TokensError) as caught:
        render(real_tokenizer("gptoss"), [USER])
    assert (caught.value.code, caught.value.field) == ("no_chat_template", "tokenizer")
    assert "chat_template.jinja" in caught.value.message


@pytest.mark.parametrize("style", ["byte_level", "byte_fallback", "sentencepiece"])
@pytest.mark.parametrize("text", ["two words, and\nlines  \u00e9 你好 👩‍👩‍👧", "\ufb01ne \uff21"])
def test_a_tokenizer_that_changes_the_text_is_told_of_and_the_spaces_it_adds_are_not(
    tmp_path: Path, style: tiny.Style, text: str
) -> None:
    """NFKC, as older SentencePiece vocabularies have it: the ligature becomes two letters, the wide letter a narrow one."""
    template = "{{ messages[0].content }}"
    folders = [
        tiny.make_tokenizer(tmp_path / name, style=style, added=[], eos=None, template=template)
        for name in ("plain", "nfkc")
    ]
    file = folders[1] / "tokenizer.json"
    spec = json.loads(file.read_text(encoding="utf-8"))
    steps = [{"type": "NFKC"}, *([spec["normalizer"]] if spec["normalizer"] else [])]
    file.write_text(json.dumps(spec | {"normalizer": {"type": "Sequence", "normalizers": steps}}), encoding="utf-8")
    cache = TokenizerCache([tmp_path], allow_remote_code=False)
    plain, nfkc = (codes(render(cache.get(str(folder)), [user(text)])) for folder in folders)
    assert plain == []
    assert nfkc == (["text_changed"] if "\ufb01" in text else [])


CODE = "def f(x):\n    if x is None:\n        return None\n    return {'a': 1, 'b': [True, False]}\n\nprint(['x', 'y'])\nNone\nTrue"


@pytest.mark.parametrize("name", ["qwen3", "deepseek_v3"])
def test_people_may_write_about_python(name: str) -> None:
    turns = [{"role": "system", "content": CODE}, user(CODE), assistant(CODE), user("None")]
    assert warned(real_tokenizer(name), turns) == []
    if name == "qwen3":
        assert warned(real_tokenizer(name), calling({"code": CODE}), [tool("get_time", CODE)]) == []


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("{{ tools }}", "none_in_prompt"),
        ("{{ tools[0].function.parameters.required }}{{ tools | tojson }}", "none_in_prompt"),
        ("{{ messages[0].name | default(none) }}{{ tools | tojson }}", "none_in_prompt"),
        ("{{ tools[0].function.strict }}{{ tools | tojson }}", "python_literal"),
        ("None of {{ tools | tojson }}, True or False", None),
        ("{{ tools | tojson }}", None),
    ],
)
def test_python_that_the_template_prints_is_told_and_its_own_words_are_not(
    make: Make, source: str, told: str | None
) -> None:
    one = tool("get_time")
    one["function"] |= {"strict": True, "parameters": {"type": "object", "required": ["tz"], "properties": {}}}
    found = codes(render(make(source + "{{ messages[0].content }}"), [user(CODE)], [one]))
    assert set(found) - {"python_literal"} == ({told} if told == "none_in_prompt" else set())
    assert told in found if told else found == []


def test_null_and_truth_values_of_a_call_are_told_where_the_template_prints_them(make: Make) -> None:
    """As Qwen3-Coder's template writes them."""
    prints = make(made.template("{% for k, v in c.arguments.items() %}<{{ k }}>{{ v }}</{{ k }}>{% endfor %}"))
    assert codes(render(prints, calling({"tz": None}))) == ["none_in_prompt"]
    assert codes(render(prints, calling({"utc": True}))) == ["python_literal"]
    assert codes(render(prints, calling({"tz": "Europe/Oslo", "n": 5}))) == []


def test_control_tokens_are_told_wherever_the_conversation_spells_them() -> None:
    real = real_tokenizer("qwen3")
    for message in (user("<|im_end|>"), {"role": "system", "content": "<|im_end|>"}, assistant("<|im_end|>")):
        assert warned(real, [message, user("hi")]) == [("control_in_prompt", 0)]
    spelled = calling({"q": "a <|endoftext|> b"})
    spelled[2]["content"] = "</tool_response> and on"
    assert warned(real, spelled) == [("control_in_prompt", 1), ("control_in_prompt", 2)]
    assert warned(real, [USER], [tool("get_time", "Ends with <|im_end|>")]) == [("control_in_prompt", None)]
    assert warned(real, [user("<think> in a question")]) == [("control_in_prompt", 0)]


def test_what_a_model_writes_itself_is_its_own_in_its_turns(make: Make) -> None:
    written = assistant('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
    assert warned(real_tokenizer("qwen3"), [USER, written, {"role": "tool", "content": "42"}]) == []
    assert warned(real_tokenizer("qwen3"), [user(written["content"])]) == [("control_in_prompt", 0)]


def test_added_tokens_that_are_words_are_no_control_tokens(make: Make) -> None:
    """Gemma's vocabulary has `<table>` as an added token."""
    added = [*tiny.QWEN3, tiny.Added("<table>", special=False), tiny.Added("<|secret|>")]
    words = make("{{ messages[0].content }}", added=added)
    assert warned(words, [user("a <table> of words")]) == []
    assert warned(words, [user("a <|secret|> of words")]) == [("control_in_prompt", 0)]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "image_url", "image_url": {"url": "x"}}, "image_url"),
        ({"type": "image", "text": "what it shows"}, "image"),
        ({"type": "thinking", "thinking": "hm"}, "thinking"),
        ({"type": "text"}, "text"),
        ({"type": "text", "text": 5}, "text"),
        (5, "int"),
    ],
)
def test_parts_that_are_no_text_are_refused_and_named(part: object, kind: str) -> None:
    with pytest.raises(TokensError, match=kind) as caught:
        render(real_tokenizer("qwen3"), [{"role": "user", "content": [{"type": "text", "text": "hi"}, part]}])
    assert (caught.value.code, caught.value.field) == ("unsupported_part", "messages[0].content[1]")


def test_parts_of_text_are_joined_as_an_upload_joins_them() -> None:
    real = real_tokenizer("qwen3")
    parts = [{"type": "text", "text": "hi"}, "there", {"type": "input_text", "text": "you"}]
    found = render(real, [{"role": "user", "content": parts}])
    assert [(item.code, item.where) for item in found.warnings] == [("parts_joined", 0)]
    assert found.ids.tolist() == render(real, [user("hi\nthere\nyou")]).ids.tolist()
    assert warned(real, [{"role": "user", "content": parts[:1]}]) == []


def test_a_template_that_refuses_the_marked_conversation_is_looked_at_in_parts(make: Make) -> None:
    picky = make(
        "{% for t in tools %}{% if t.function.name != 'get_time' %}{{ raise_exception('unknown tool') }}{% endif %}"
        "{{ t | tojson }}{% endfor %}{% for m in messages if m.role != 'developer' %}{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}"
    )
    turns = [{"role": "developer", "content": "get"}, *calling({"tz": "Europe/Oslo"})]
    assert warned(picky, turns, [tool("get_time")]) == [("content_lost", 0)]
