"""The probe refuses a server only for a contradiction, reports a sick one, and says what text loses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.backends.probe.probe import ProbeReport, probe
from inference.backends.server.client import SglangClient
from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import bind, get_format
from inference.tokens.tokenizer import Tokenizer
from tests.support.fake_sglang import Answer, Facts, FakeSglang, FolderVocabulary
from tests.support.fake_sglang.script import Call
from tests.support.tiny_tokenizers import CHATML, CHATML_OPENED, QWEN3, make_tokenizer

pytestmark = pytest.mark.anyio
THOUGHT, SAID = "I count them. A spider has eight legs.", "The answer is eight."
SPECIAL_THINK = tuple(replace(item, special=True) for item in QWEN3)
Make = Callable[..., tuple[FakeSglang, Tokenizer]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def pair(tmp_path: Path, start_fake_sglang: Callable[..., FakeSglang]) -> Make:
    """A fake server and our tokenizer, of one folder unless told otherwise; it thinks, answers and stops."""

    def make(
        *,
        theirs: dict[str, Any] | None = None,
        answer: str = f"<think>{THOUGHT}</think>{SAID}<|im_end|>",
        facts: dict[str, Any] | None = None,
        **ours: Any,
    ) -> tuple[FakeSglang, Tokenizer]:
        folder = make_tokenizer(tmp_path / "ours", **ours)
        other = folder if theirs is None else make_tokenizer(tmp_path / "theirs", **theirs)
        tokenizer = TokenizerCache([tmp_path], allow_remote_code=False).get(str(folder))
        told = Facts(**{"vocab_size": tokenizer.vocab_size, "model_path": str(other), **(facts or {})})
        ids = tokenizer.encode(answer)
        server = start_fake_sglang(facts=told, vocabulary=FolderVocabulary(other), script=lambda _call: ids)
        return server, tokenizer

    return make


async def asked(server: FakeSglang, tokenizer: Tokenizer, **more: Any) -> ProbeReport:
    more.setdefault("timeout_s", 20)
    async with SglangClient(server.url, server.facts.api_key, max_connections=4) as client:
        return await probe(client, tokenizer, bind(get_format("qwen3"), tokenizer), **more)


def failed(report: ProbeReport) -> list[str]:
    assert report.ok is not bool(report.refusals)
    return [check.name for check in report.checks if check.ok is False]


def answer_of(usual: Any, call: Call) -> Answer:
    """What it would answer, for a fault to be put on it."""
    return Answer(output_ids=list(usual(call)))


async def test_a_good_server_passes_and_every_check_was_made(pair: Make) -> None:
    report = await asked(*pair(facts={"weight_version": "start-7"}), weight_version="start-7")
    assert failed(report) == []
    assert {check.name for check in report.checks if check.ok} == {
        "version", "auto_truncate", "conversation", "vocabulary", "echo", "counts", "inside_vocabulary", "weight_version", "delimiters",
    }  # fmt: skip
    assert report.notes == []


async def test_three_ways_show_what_text_and_chat_lose(pair: Make) -> None:
    server, tokenizer = pair(added=SPECIAL_THINK)
    ways = (await asked(server, tokenizer)).three_ways
    assert ways is not None
    assert ways.ids.text == f"<think>{THOUGHT}</think>{SAID}<|im_end|>"
    assert "".join(piece.text for piece in ways.ids.pieces) == ways.ids.text
    assert [piece.id for piece in ways.ids.pieces] == ways.ids.output_ids
    assert ways.text.text == THOUGHT + SAID
    assert ways.text.losses[0] == "text lost <think>, </think> and <|im_end|>."
    assert "another sequence" in ways.text.losses[1]
    assert "chat returned reasoning_content empty; the think block sits in content." in ways.chat.losses
    assert ways.losses == [*ways.text.losses, *ways.chat.losses]


async def test_a_parser_that_splits_well_still_loses_the_delimiters(pair: Make) -> None:
    ways = (await asked(*pair())).three_ways
    assert ways is not None
    assert (ways.chat.reasoning_content, ways.chat.content) == (THOUGHT, SAID)
    assert ways.chat.losses == ["chat lost <think>, </think> and <|im_end|>."]
    assert ways.text.losses[0] == "text lost <|im_end|>."


async def test_without_a_parser_the_think_block_sits_in_content(pair: Make) -> None:
    server, tokenizer = pair(facts={"reasoning_parser": None})
    ways = (await asked(server, tokenizer)).three_ways
    assert ways is not None
    assert "chat returned reasoning_content empty; the think block sits in content." in ways.chat.losses


async def test_a_think_block_opened_by_the_prompt_counts(pair: Make) -> None:
    server, tokenizer = pair(template=CHATML_OPENED, answer=f"{THOUGHT}</think>{SAID}<|im_end|>")
    report = await asked(server, tokenizer)
    assert failed(report) == []
    assert report.notes == []
    assert report.three_ways is not None
    assert report.three_ways.chat.losses == ["chat lost </think> and <|im_end|>."]


async def test_an_unseen_delimiter_is_a_note(pair: Make) -> None:
    server, tokenizer = pair(answer=f"{SAID}<|im_end|>")
    report = await asked(server, tokenizer)
    assert report.ok
    assert report.notes == ["Not met in the probe's prompt or answer: <think> and </think>."]


async def test_an_answer_misfiled_as_reasoning_is_said(pair: Make) -> None:
    server, tokenizer = pair(template=CHATML_OPENED, answer=f"{THOUGHT}</think>{SAID}<|im_end|>")
    server.facts.reasoning_parser = None
    ways = (await asked(server, tokenizer)).three_ways
    assert ways is not None
    assert any("the think block sits in content" in loss for loss in ways.chat.losses)


@pytest.mark.parametrize("version", ["0.5.4", "0.5.4.post2", "0.4.10", "v0.5.0rc1"])
async def test_an_old_server_is_refused_before_it_is_asked(pair: Make, version: str) -> None:
    server, tokenizer = pair(facts={"version": version})
    report = await asked(server, tokenizer)
    assert failed(report) == ["version"]
    assert "older than 0.5.5" in report.refusals[0]
    assert server.seen("/generate") == []


@pytest.mark.parametrize(
    ("version", "ok"),
    [("0.5.5", True), ("0.10.0", True), ("1.0.0", True), ("0.5.23.dev3+g1", True), ("main", None), ("", None)],
)
async def test_newer_versions_pass_and_an_unknown_one_is_a_note(pair: Make, version: str, ok: bool | None) -> None:
    report = await asked(*pair(facts={"version": version}))
    assert report.ok
    assert next(check.ok for check in report.checks if check.name == "version") is ok


async def test_quiet_truncation_is_refused(pair: Make) -> None:
    report = await asked(*pair(facts={"allow_auto_truncate": True}))
    assert failed(report) == ["auto_truncate"]
    assert "--allow-auto-truncate" in report.refusals[0]


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (Answer(prompt_token_ids=[1, 2, 3]), "echo"),
        (Answer(completion_tokens=3), "counts"),
        (Answer(prompt_tokens=3), "counts"),
        (Answer(output_ids=[], exact=True), "counts"),
        (Answer(output_ids=[200_012], exact=True), "inside_vocabulary"),
        (Answer(weight_version="other"), "weight_version"),
        (Answer(status=503), "ids"),
        (Answer(status=500, shape="plain", message="Internal Server Error"), "ids"),
        (Answer(hang=True), "ids"),
        (Answer(drop=True), "ids"),
        (Answer(die=True), "ids"),
        (Answer(body="nonsense"), "ids"),
        (Answer.nan([5]), "ids"),
        (Answer.aborted(), "ids"),
    ],
)
async def test_a_contradiction_refuses_and_a_sick_server_is_reported(pair: Make, fault: Answer, check: str) -> None:
    server, tokenizer = pair(facts={"weight_version": "start-7"})
    usual = server.script
    assert usual is not None
    server.script = lambda call: fault if call.path == "/generate" else usual(call)
    report = await asked(server, tokenizer, weight_version="start-7", timeout_s=0.5)
    assert failed(report) == [check]


async def test_the_end_of_the_prompt_in_the_output_is_refused(pair: Make) -> None:
    server, tokenizer = pair()
    server.script = lambda call: Answer(output_ids=[*call.prompt_ids[-2:], 10, 11], exact=True, completion_tokens=2)
    report = await asked(server, tokenizer)
    assert failed(report) == ["counts"]
    assert "part of them may be the prompt's" in report.refusals[0]


async def test_a_server_that_shows_in_no_way_what_the_model_saw_is_refused(pair: Make) -> None:
    server, tokenizer = pair()
    server.knobs.echo_prompt_ids = False
    usual = server.script
    server.script = lambda call: replace(answer_of(usual, call), remove=("input_token_logprobs",))
    assert failed(await asked(server, tokenizer)) == ["echo"]


async def test_log_probabilities_prove_the_prompt_where_a_router_drops_the_echo(pair: Make) -> None:
    server, tokenizer = pair()
    server.knobs.echo_prompt_ids = False
    report = await asked(server, tokenizer)
    assert report.ok
    (check,) = [check for check in report.checks if check.name == "echo"]
    assert check.ok is None
    assert "only their count is compared" in check.text


async def test_log_probabilities_of_other_ids_than_were_sent_are_refused(pair: Make) -> None:
    server, tokenizer = pair()
    server.knobs.echo_prompt_ids = False
    usual = server.script
    other = {"input_token_logprobs": [[None, 1, None], [0.0, 2, None]]}
    server.script = lambda call: replace(answer_of(usual, call), meta=other)
    report = await asked(server, tokenizer)
    assert failed(report) == ["echo"]
    assert "from position 0" in report.refusals[0]


async def test_a_server_that_tells_nothing_of_itself_is_judged_by_its_answers(pair: Make) -> None:
    server, tokenizer = pair()
    server.knobs.missing = {"/model_info", "/get_model_info", "/server_info", "/get_server_info"}
    report = await asked(server, tokenizer)
    assert report.ok
    assert any("does not say which SGLang it is" in note for note in report.notes)


async def test_another_vocabulary_is_refused_and_never_sent_our_ids(pair: Make) -> None:
    moved = tuple(replace(item, id=(item.id or 0) + 1000) for item in QWEN3)
    server, tokenizer = pair(theirs={"added": moved})
    report = await asked(server, tokenizer)
    assert "vocabulary" in failed(report)
    assert server.seen("/generate") == []


async def test_a_smaller_model_is_never_sent_our_ids(pair: Make) -> None:
    server, tokenizer = pair()
    server.facts.server_info = lambda port: {**Facts.server_info(server.facts, port), "vocab_size": 1000}  # type: ignore[method-assign]
    assert failed(await asked(server, tokenizer)) == ["vocabulary_size"]
    assert server.seen("/generate") == []


async def test_another_template_is_refused_with_the_place(pair: Make) -> None:
    other = CHATML.replace("<|im_start|>assistant", "<|im_start|>helper")
    report = await asked(*pair(theirs={"template": other}))
    assert failed(report) == ["conversation"]
    assert "helper" in report.refusals[0]
    assert "assistant" in report.refusals[0]


async def test_a_server_without_tokenize_leaves_notes(pair: Make) -> None:
    server, tokenizer = pair()
    server.knobs.missing = {"/tokenize", "/detokenize"}
    report = await asked(server, tokenizer)
    assert report.ok
    assert len(report.notes) == 2
    assert all("Not seen" in note for note in report.notes)


async def test_a_server_without_a_tokenizer_answers_by_ids_alone(pair: Make) -> None:
    server, tokenizer = pair(facts={"skip_tokenizer_init": True})
    report = await asked(server, tokenizer)
    assert report.ok
    assert report.three_ways is not None
    assert report.three_ways.text.text is None
    assert "without a tokenizer" in report.three_ways.text.losses[0]
    assert report.three_ways.chat.error == "Internal Server Error"


async def test_a_server_that_is_gone_is_reported(pair: Make) -> None:
    server, tokenizer = pair()
    server.stop()
    report = await asked(server, tokenizer)
    assert failed(report) == ["server"]
    assert server.url in report.refusals[0]


async def test_no_format_is_a_note(pair: Make) -> None:
    server, tokenizer = pair()
    async with SglangClient(server.url, max_connections=4) as client:
        report = await probe(client, tokenizer, None, timeout_s=20)
    assert report.ok
    assert (report.token_format, report.notes) == (
        None,
        ["No token format is chosen: the answers will not be cut into parts."],
    )


async def test_nothing_secret_is_kept(pair: Make) -> None:
    server, tokenizer = pair(facts={"api_key": "sk-hidden-1", "admin_api_key": "adm-hidden-2"})
    report = await asked(server, tokenizer)
    assert report.ok
    assert "hidden-" not in report.model_dump_json()
    assert report.server["version"] == "0.5.23"
    assert report.server["tokenizer_path"] == server.facts.tokenizer_path


async def test_the_prompt_asked_is_greedy_and_short(pair: Make) -> None:
    server, tokenizer = pair()
    await asked(server, tokenizer)
    (by_ids,) = server.seen("/generate")
    (by_chat,) = server.seen("/v1/chat/completions")
    assert (by_ids.body["sampling_params"]["temperature"], by_chat.body["temperature"]) == (0, 0)
    assert by_ids.body["sampling_params"]["max_new_tokens"] == by_chat.body["max_tokens"]


async def test_the_report_survives_a_round_through_json(pair: Make) -> None:
    report = await asked(*pair())
    assert ProbeReport.model_validate_json(report.model_dump_json()) == report
