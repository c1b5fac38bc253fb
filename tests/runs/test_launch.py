"""Before a run starts, everything it will do is resolved, shown with its source, and frozen."""

from datetime import UTC, date, datetime

import pytest
from pydantic import ValidationError

from db.errors import Conflict, Invalid, NotFound
from db.filters import parse_body
from db.tables import PromptSet
from inference.runs.control import delete_run, get_run
from inference.runs.launch import create_run, preview_run
from inference.runs.service import list_events, list_runs, run_stats, run_view
from inference.runs.settings import NewRun, RunSettings, fingerprint, seed_for
from tests.support.fake_sglang import Answer, FakeSglang
from tests.support.tiny_tokenizers import make_tokenizer
from tests.support.workshop import MODEL, Workshop


def preview(shop: Workshop, **new):
    with shop.ctx.db.read() as s:
        return preview_run(s, shop.ctx, NewRun(name="r", **new))


def test_everything_left_out_is_resolved_and_says_where_it_came_from(shop: Workshop, fake_sglang: FakeSglang) -> None:
    shown = preview(shop, prompt_set_id=shop.prompts(6), backend_ids=[shop.backend(fake_sglang)], repeats=3)
    found = {item.name: (item.value, item.source) for item in shown.resolved}
    assert found["tokenizer"] == (MODEL, "backend fake: the tokenizer of its model")
    assert found["token_format"][0] == "qwen3"
    assert found["sampling.temperature"] == (0.6, "model: generation_config.json")
    assert found["sampling.top_k"] == (-1, "default")
    assert found["sampling.max_new_tokens"] == (2048, "default: half the context, at most 16,384")
    assert found["context_length"] == (4096, "server: the smallest context_length of the backends")
    assert found["max_prompt_tokens"] == (4089, "server: below its max_req_input_len")
    assert found["concurrency"][0] == 64
    assert shown.settings["sources"]["sampling.temperature"] == "model: generation_config.json"
    assert shown.samples == 18
    assert shown.example_text is not None
    assert shown.example_text.startswith("<|im_start|>user\nquestion 0<|im_end|>")
    assert shown.example_tokens


def test_launched_run_is_the_one_that_was_shown(shop: Workshop, fake_sglang: FakeSglang) -> None:
    new = {"prompt_set_id": shop.prompts(4), "backend_ids": [shop.backend(fake_sglang)], "sampling": {"top_p": 0.5}}
    shown = preview(shop, **new)
    with shop.ctx.db.write() as s:
        run_id = create_run(s, shop.ctx, NewRun(name="r", **new), None).id
    with shop.ctx.db.read() as s:
        view = run_view(s, run_id)
    assert (view.fingerprint, view.settings) == (shown.fingerprint, shown.settings)
    assert (view.state, view.allowed) == ("queued", ["pause", "cancel"])


def test_fingerprint_follows_what_decides_the_data_and_nothing_else(shop: Workshop, fake_sglang: FakeSglang) -> None:
    base = {"prompt_set_id": shop.prompts(4), "backend_ids": [shop.backend(fake_sglang)]}
    plain = preview(shop, **base).fingerprint
    for same in ({"concurrency": 3}, {"timeout_s": 5}, {"guard": None}, {"checks": {"truncated": False}}):
        assert preview(shop, **base, **same).fingerprint == plain
    different = [
        preview(shop, **base, **other).fingerprint
        for other in ({"repeats": 2}, {"seed": 1}, {"sampling": {"top_p": 0.5}}, {"limit": 3}, {"categories": ["a"]})
    ]
    assert len({plain, *different}) == 6


def test_guard_left_out_is_the_default_and_null_is_none(shop: Workshop, fake_sglang: FakeSglang) -> None:
    base = {"prompt_set_id": shop.prompts(2), "backend_ids": [shop.backend(fake_sglang)]}
    assert preview(shop, **base).settings["guard"]["first"] == 50
    assert preview(shop, **base, guard=None).settings["guard"] is None
    assert preview(shop, **base, guard={"first": 20}).settings["guard"]["first"] == 20


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"backend_ids": [99]}, "backend_unknown", "backend_ids"),
        ({"categories": ["a", "zzz"]}, "category_unknown", "categories"),
        ({"tokenizer": "nowhere"}, "tokenizer_missing", "tokenizer"),
        ({"token_format": "klingon"}, "format_unknown", "token_format"),
        ({"token_format": "kimi_k2"}, "format_not_in_vocabulary", "token_format"),
        ({"checks": {"truncated": True, "klingon": False}}, "check_unknown", "checks.klingon"),
        ({"checks": {"content_lost": False}}, "check_not_switchable", "checks.content_lost"),
        ({"sampling": {"stop_token_ids": [999_999]}}, "stop_id_out_of_vocabulary", "sampling.stop_token_ids"),
        (
            {"sampling": {"max_new_tokens": 5, "min_new_tokens": 6}},
            "min_new_tokens_too_large",
            "sampling.min_new_tokens",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_its_field(
    shop: Workshop, fake_sglang: FakeSglang, changes, code: str, field: str
) -> None:
    new = {"prompt_set_id": shop.prompts(2), "backend_ids": [shop.backend(fake_sglang)], **changes}
    with pytest.raises(Invalid) as caught:
        preview(shop, **new)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_tokenizer_that_no_probe_compared_is_a_warning(shop: Workshop, fake_sglang: FakeSglang) -> None:
    probe = {"ok": True, "tokenizer": "its-own", "tokenizer_sha256": "0" * 64}
    new = {"prompt_set_id": shop.prompts(2), "backend_ids": [shop.backend(fake_sglang, probe=probe)]}
    assert any("its-own" in warning for warning in preview(shop, **new).warnings)


def test_prompt_set_must_be_there_read_and_not_empty(shop: Workshop, fake_sglang: FakeSglang) -> None:
    backend_id = shop.backend(fake_sglang)
    with shop.ctx.db.write() as s:
        reading, empty = PromptSet(name="r", state="reading"), PromptSet(name="e", state="ready")
        s.add_all([reading, empty])
    for prompt_set_id, error in [(999, NotFound), (reading.id, Conflict), (empty.id, Invalid)]:
        with pytest.raises(error):
            preview(shop, prompt_set_id=prompt_set_id, backend_ids=[backend_id])


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling": {"n": 2}},
        {"sampling": {"temperature": -1}},
        {"sampling": {"top_p": 0}},
        {"repeats": 0},
        {"backend_ids": []},
        {"name": "  "},
        {"surprise": 1},
    ],
)
def test_request_out_of_bounds_is_refused(wrong) -> None:
    with pytest.raises(ValidationError):
        NewRun(**{"name": "r", "prompt_set_id": 1, "backend_ids": [1], **wrong})


def test_changed_tokenizer_stops_the_run_and_says_so(shop: Workshop, fake_sglang: FakeSglang) -> None:
    from inference.runs.runstate import RunBroken

    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang))
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template="{{ messages[0].content }}")
    with pytest.raises(RunBroken, match="was changed since this run was launched"):
        shop.work(run_id)
    assert fake_sglang.seen("/generate") == []


def test_views_count_by_category_and_statistics_follow_a_filter(shop: Workshop, fake_sglang: FakeSglang) -> None:
    fake_sglang.script = lambda call: Answer(status=400, shape="c") if call.number == 2 else None
    run_id = shop.launch(shop.prompts(6), shop.backend(fake_sglang), guard=None, concurrency=1)
    shop.work(run_id)
    with shop.ctx.db.read() as s:
        view = run_view(s, run_id)
        everything = run_stats(s, run_id)
        b = run_stats(s, run_id, parse_body({"category": ["b"]}))
        pages = [list_runs(s, limit=1), list_events(s, run_id, limit=2)]
        rest = list_events(s, run_id, after=pages[1].next, limit=100)
    assert (view.counts.done, view.counts.failed, view.counts.total) == (5, 1, 6)
    assert [(category.category, category.done) for category in view.categories] == [("a", 3), ("b", 2)]
    assert view.completion_tokens == 5 * 15
    assert set(view.allowed) == {"regenerate", "rederive", "delete", "retry", "export"}
    assert everything.finish_reasons == {"stop": 5}
    assert everything.errors == b.errors == {"rejected": 1}
    assert everything.length_histogram == [(0, 16, 5)]
    assert (b.counts.done, b.counts.failed, b.counts.total) == (2, 1, 3)
    assert [run.id for run in pages[0].items] == [run_id]
    events = [*pages[1].items, *rest.items]
    assert events[0].kind == "completed_with_failures"
    assert events[-1].kind == "created"


def test_deleted_run_leaves_no_row_and_no_ids(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang))
    with pytest.raises(Conflict) as caught:
        delete_run(shop.ctx, run_id)
    assert caught.value.allowed == ("pause", "cancel")
    shop.work(run_id)
    key = (shop.samples(run_id)[0].id, 1)
    assert shop.ctx.ids.get(run_id, key) is not None
    delete_run(shop.ctx, run_id)
    assert shop.ctx.ids.get(run_id, key) is None
    assert shop.samples(run_id) == []
    with shop.ctx.db.read() as s, pytest.raises(NotFound):
        get_run(s, run_id)


def test_seeds_differ_and_are_the_same_whenever_they_are_made() -> None:
    seeds = {
        seed_for(0, prompt, 0, repeat, attempt) for prompt in range(50) for repeat in range(4) for attempt in (1, 2)
    }
    assert len(seeds) == 400
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_for(7, 1, 0, 0, 1) == seed_for(7, 1, 0, 0, 1) != seed_for(8, 1, 0, 0, 1)


def test_settings_survive_their_json(shop: Workshop, fake_sglang: FakeSglang) -> None:
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang))
    run = shop.run(run_id)
    again = RunSettings.model_validate(run.settings)
    assert again.model_dump(mode="json") == run.settings
    assert fingerprint(again) == run.fingerprint


def test_checks_are_switched_by_flag_code_and_shown_with_what_is_off(shop: Workshop, fake_sglang: FakeSglang) -> None:
    base = {"prompt_set_id": shop.prompts(2), "backend_ids": [shop.backend(fake_sglang)]}
    plain = preview(shop, **base)
    assert plain.settings["checks_off"] == ["retokenization_drift"]
    assert plain.settings["sources"]["checks_off"] == "defaults"
    asked = preview(shop, **base, checks={"retokenization_drift": True, "truncated": False, "content_empty": True})
    assert asked.settings["checks_off"] == ["truncated"]
    assert asked.settings["sources"]["checks_off"] == "request (retokenization_drift, truncated), else defaults"
    old = {name: value for name, value in plain.settings.items() if name not in {"checks_off", "render_faults"}}
    read = RunSettings.model_validate(old)  # as a run of the first version stored them
    assert (read.checks_off, read.render_faults) == (("retokenization_drift",), "skip")


DATED = "{{ strftime_now('%d %B %Y') }} {% for m in messages %}{{ m.content }}{% endfor %}"


def test_a_template_that_reads_the_date_gets_one_that_stays(shop: Workshop, fake_sglang: FakeSglang) -> None:
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template=DATED)
    base = {"prompt_set_id": shop.prompts(2), "backend_ids": [shop.backend(fake_sglang)]}
    shown = preview(shop, **base)
    today = shown.settings["chat_template_kwargs"]["strftime_now"]
    assert abs((datetime.now(UTC).date() - date.fromisoformat(today)).days) <= 1
    assert "day of the launch" in shown.settings["sources"]["chat_template_kwargs.strftime_now"]
    assert date.fromisoformat(today).strftime("%d %B %Y") in shown.example_text
    assert not [warning for warning in shown.warnings if "date" in warning]
    given = preview(shop, **base, chat_template_kwargs={"strftime_now": "2024-02-29"})
    assert given.example_text.startswith("29 February 2024")
    assert given.settings["sources"]["chat_template_kwargs.strftime_now"] == "request"
    assert given.fingerprint != shown.fingerprint


def test_a_template_without_a_date_gets_none(shop: Workshop, fake_sglang: FakeSglang) -> None:
    shown = preview(shop, prompt_set_id=shop.prompts(2), backend_ids=[shop.backend(fake_sglang)])
    assert shown.settings["chat_template_kwargs"] == {}


@pytest.mark.parametrize("field", ["flag", "tag", "verdict", "reviewer"])
def test_figures_of_samples_that_have_none_are_figures_of_those_alone(
    shop: Workshop, fake_sglang: FakeSglang, field: str
) -> None:
    """The figures read the very tables that the filter asks of."""
    fake_sglang.script = lambda call: [151667, 226, 151668, *range(340, 360 + call.number), 151645]  # nothing to flag
    run_id = shop.launch(shop.prompts(2), shop.backend(fake_sglang), guard=None)
    shop.work(run_id)
    with shop.ctx.db.read() as s:
        assert run_stats(s, run_id, parse_body({field: ["none"]})).counts.done == 2
        assert run_stats(s, run_id, parse_body({f"-{field}": ["none"]})).counts.done == 0


LOSING = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
LOST = [{"role": "system", "content": "Answer in French, please."}, {"role": "user", "content": "What time is it?"}]


@pytest.mark.parametrize(("asked", "state", "sent"), [({}, "failed", 0), ({"render_faults": "generate"}, "done", 2)])
def test_a_prompt_that_lost_content_is_sent_only_where_the_run_says_so(
    shop: Workshop, fake_sglang: FakeSglang, asked: dict[str, str], state: str, sent: int
) -> None:
    make_tokenizer(shop.ctx.settings.model_roots[0] / MODEL, template=LOSING)
    run_id = shop.launch(shop.prompts(2, messages=LOST), shop.backend(fake_sglang), guard=None, **asked)
    shop.work(run_id)
    for sample in shop.samples(run_id):
        assert sample.state == state
        assert sample.error_code == (None if sent else "content_lost")
        assert "content_lost" in [row.code for row in shop.flags(run_id) if row.sample_id == sample.id]
    assert len(fake_sglang.seen("/generate")) == sent
    settings = RunSettings.model_validate(shop.run(run_id).settings)
    assert settings.sources["render_faults"] == ("request" if asked else "default")
    skipping = settings.model_copy(update={"render_faults": "skip"})
    assert (fingerprint(settings) == fingerprint(skipping)) == (not asked)
