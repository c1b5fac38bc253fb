"""The probe's single questions. Each gives a `Check`: true, contradicted, or not seen."""

import re
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from inference.backends.server.client import NEUTRAL_SAMPLING, GenerateError, Generation, SglangClient, new_rid
from inference.model import View
from inference.tokens.formats import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.tokenizer import Tokenizer

OLDEST = (0, 5, 5)
"""Before it, `output_ids` could begin with the end of the prompt (sglang#17240, #17323)"""

SAMPLE_TEXT = 'The answer is 42, and naïve café owners in 東京 pay €3.50 🙂 for it:\n\n\tdef f(x): return {"a": [x]}'
"""Words, digits, other scripts, an emoji, indentation and JSON: where tokenizers of the same family part ways"""

_SPREAD = 24
_NO_SUCH_THING = frozenset({404, 405, 501})
_MODEL_INFO = (
    "model_path",
    "tokenizer_path",
    "served_model_name",
    "weight_version",
    "reasoning_parser",
    "tool_call_parser",
    "model_type",
)


class Check(View):
    """One question and its answer: `ok` None where it could not be seen."""

    name: str
    ok: bool | None
    text: str


async def told_of_itself(client: SglangClient) -> dict[str, Any]:
    """What is kept of `/model_info` and `/server_info`; of one that has no such endpoint, as a router may not, nothing.

    Raises:
        GenerateError: it does not answer, or not well.
    """
    model = await _if_there(client.model_info())
    server = await _if_there(client.server_info())
    return {**{key: model[key] for key in _MODEL_INFO if key in model}, **server}


async def _if_there(question: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await question
    except GenerateError as error:
        if error.status not in _NO_SUCH_THING:
            raise
        return {}


def version(server: Mapping[str, Any]) -> Check:
    """Whether the version is one whose ids can be trusted."""
    said = str(server.get("version") or "")
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said)
    if numbers is None:
        return Check(name="version", ok=None, text=f"The server does not say which SGLang it is ({said or 'nothing'}).")
    if tuple(map(int, numbers.groups())) < OLDEST:
        text = (
            f"SGLang {said} is older than 0.5.5: its output_ids can begin with the end of the prompt "
            "(sglang#17240, #17323). Install a newer one."
        )
        return Check(name="version", ok=False, text=text)
    return Check(name="version", ok=True, text=f"SGLang {said}.")


def auto_truncate(server: Mapping[str, Any]) -> Check:
    """Whether it would cut prompts quietly."""
    if server.get("allow_auto_truncate"):
        text = "The server runs with --allow-auto-truncate: it cuts the end off long prompts without a word. Start it without that flag."
        return Check(name="auto_truncate", ok=False, text=text)
    known = "allow_auto_truncate" in server
    text = (
        "Prompts that are too long are refused, not cut."
        if known
        else "The server does not say whether it cuts long prompts."
    )
    return Check(name="auto_truncate", ok=True if known else None, text=text)


def vocabulary_size(server: Mapping[str, Any], tokenizer: Tokenizer) -> list[Check]:
    """Whether every id we may send has a row there; says nothing where the server names no size."""
    rows = server.get("vocab_size")
    if type(rows) is not int:
        return []
    if rows < tokenizer.vocab_size:
        text = f"The server's model has {rows} ids, the tokenizer {tokenizer.name} has {tokenizer.vocab_size}: an id between would take the server down."
        return [Check(name="vocabulary_size", ok=False, text=text)]
    return [Check(name="vocabulary_size", ok=True, text=f"The model has {rows} ids.")]


async def conversation(
    client: SglangClient, tokenizer: Tokenizer, messages: Sequence[Mapping[str, Any]], ours: Ids | None
) -> Check:
    """Whether the server renders the conversation to the very ids we do."""
    if ours is None:
        return Check(name="conversation", ok=None, text="Not compared: the conversation cannot be rendered here.")
    body = {"model": "default", "messages": list(messages), "add_generation_prompt": True}
    theirs = await _tokens(client, body)
    if theirs == ours.tolist():
        return Check(
            name="conversation", ok=True, text=f"Both sides render the conversation to the same {len(ours)} ids."
        )
    where = _first_difference(theirs, ours.tolist())
    theirs_next, ours_next = tokenizer.decode(theirs[where : where + 8]), tokenizer.decode(ours[where : where + 8])
    text = (
        f"The server renders the conversation to other ids from position {where}: it continues {theirs_next!r} "
        f"(ids {theirs[where : where + 4]}), {tokenizer.name} gives {ours_next!r} (ids {ours[where : where + 4].tolist()}). "
        "It runs another tokenizer or chat template; name the one it was started with."
    )
    return Check(name="conversation", ok=False, text=text)


async def vocabulary(client: SglangClient, tokenizer: Tokenizer, bound: BoundFormat | None) -> Check:
    """Whether ids mean the same there: our markers, a spread of ids, and a text in many scripts."""
    for marker, number in (bound.ids if bound else {}).items():
        said = await _detokenize(client, [number])
        if said != marker:
            text = f"Id {number} is {marker} here and {said!r} on the server: it runs another vocabulary than {tokenizer.name}."
            return Check(name="vocabulary", ok=False, text=text)
    for number in _spread(tokenizer):
        said, ours = await _detokenize(client, [number]), tokenizer.token_text(number)
        if said.strip() != ours.strip():  # a decoder may drop the leading space of a lone piece
            text = f"Id {number} is {ours!r} here and {said!r} on the server: it runs another vocabulary than {tokenizer.name}."
            return Check(name="vocabulary", ok=False, text=text)
    theirs = await _tokens(client, {"model": "default", "prompt": SAMPLE_TEXT, "add_special_tokens": False})
    ours_ids = tokenizer.encode(SAMPLE_TEXT)
    if theirs != ours_ids:
        where = _first_difference(theirs, ours_ids)
        text = (
            f"The server cuts text into other ids than {tokenizer.name}, from position {where} of a sample: "
            f"{theirs[where : where + 4]} there, {ours_ids[where : where + 4]} here."
        )
        return Check(name="vocabulary", ok=False, text=text)
    return Check(
        name="vocabulary",
        ok=True,
        text=f"Markers, {_SPREAD} ids across the vocabulary and a sample text are the same on both sides.",
    )


def echo(sent: Ids, generation: Generation, seen: Sequence[int] | None) -> Check:
    """Whether the ids that were sent came back as what the model saw.

    Args:
        sent: the prompt's ids.
        generation: the answer.
        seen: what the log-probabilities of the prompt show that the model saw, asked for where no ids came back; None: nothing.
    """
    if generation.prompt_ids is not None:
        if not np.array_equal(generation.prompt_ids, sent):
            text = "The prompt_token_ids that came back are not the ids that were sent."
            return Check(name="echo", ok=False, text=text)
        return Check(name="echo", ok=True, text=f"The {len(sent)} ids sent came back as prompt_token_ids.")
    if seen is None:
        text = "The server sends neither prompt_token_ids back nor the prompt's log-probabilities, so what the model saw cannot be proven."
        return Check(name="echo", ok=False, text=text)
    if list(seen) != sent.tolist():
        where = _first_difference(seen, sent.tolist())
        text = f"The model saw other ids than were sent, from position {where}, as the log-probabilities of the prompt show."
        return Check(name="echo", ok=False, text=text)
    text = (
        "The server does not send prompt_token_ids back, as behind a router, which drops the request for them. The "
        f"log-probabilities of a prompt show that the model saw the {len(sent)} ids that were sent; of a run's prompts only "
        "their count is compared."
    )
    return Check(name="echo", ok=None, text=text)


async def seen_by_logprobs(client: SglangClient, sent: Ids, timeout_s: float) -> list[int] | None:
    """The ids that the model saw for the prompt, from the log-probability it gave each; None where the server tells none.

    Raises:
        GenerateError: no answer.
    """
    body = {
        "input_ids": sent,
        "sampling_params": {**NEUTRAL_SAMPLING, "temperature": 0.0, "max_new_tokens": 1},
        "rid": new_rid(),
        "stream": False,
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    answer = await client.call("POST", "/generate", body, timeout_s=timeout_s)
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    told = meta.get("input_token_logprobs") if isinstance(meta, dict) else None
    if not isinstance(told, list) or not told:
        return None
    ids = [item[1] for item in told if isinstance(item, list) and len(item) > 1 and type(item[1]) is int]
    return ids if len(ids) == len(told) else None


def router(server: Mapping[str, Any]) -> list[Check]:
    """Whether it is a router, which tells little of the servers behind it."""
    workers = server.get("router_workers")
    if type(workers) is not int:
        return []
    text = (
        f"It is a router in front of {workers} {'server' if workers == 1 else 'servers'}: their limits, versions and "
        "tokenizers cannot be seen through it."
    )
    return [Check(name="router", ok=None, text=text)]


def alike(versions: Collection[str]) -> list[Check]:
    """Whether all answers came from the same weights."""
    if len(versions) <= 1:
        return []
    text = (
        f"Answers come from different weights ({' and '.join(sorted(versions))}): the servers behind this address were not "
        "loaded alike, and each sample says which it is from."
    )
    return [Check(name="weights_alike", ok=None, text=text)]


def counts(sent: Ids, generation: Generation) -> Check:
    """Whether the server's counts are those of the ids."""
    got, counted = len(generation.output_ids), generation.completion_tokens
    if got != counted:
        text = f"The server counts {counted} completion tokens and sent {got} output ids: part of them may be the prompt's."
        return Check(name="counts", ok=False, text=text)
    if generation.prompt_tokens != len(sent):
        text = f"{len(sent)} prompt ids were sent and the server counts {generation.prompt_tokens}: it cut or extended the prompt."
        return Check(name="counts", ok=False, text=text)
    if not got:
        return Check(name="counts", ok=False, text="The server answered with no ids at all.")
    return Check(name="counts", ok=True, text=f"{got} output ids came, as many as the server counts.")


def inside_vocabulary(generation: Generation, tokenizer: Tokenizer) -> Check:
    """Whether every answered id exists here."""
    highest = int(generation.output_ids.max()) if generation.output_ids.size else 0
    if highest >= tokenizer.vocab_size:
        text = f"The answer holds id {highest}; {tokenizer.name} has ids below {tokenizer.vocab_size}."
        return Check(name="inside_vocabulary", ok=False, text=text)
    return Check(name="inside_vocabulary", ok=True, text="Every answered id is in the vocabulary.")


def weights(generation: Generation, expected: str | None) -> list[Check]:
    """Whether the answer comes from the weights that were started."""
    if expected is None:
        return []
    if generation.weight_version != expected:
        text = f"The answer comes from weight version {generation.weight_version!r}, expected {expected!r}: another server, or its weights were changed."
        return [Check(name="weight_version", ok=False, text=text)]
    return [Check(name="weight_version", ok=True, text=f"The weight version is {expected}.")]


def delimiters(bound: BoundFormat | None, prompt_ids: Ids, generation: Generation) -> list[Check]:
    """Which of the format's think delimiters were seen; one that was not is no fault."""
    if bound is None:
        return [
            Check(name="delimiters", ok=None, text="No token format is chosen: the answers will not be cut into parts.")
        ]
    think = bound.format.think
    wanted = [text for text in (think.open, think.close) if text in bound.ids] if think else []
    known = ", ".join(f"{text} {number}" for text, number in bound.ids.items())
    checks = [
        Check(
            name="delimiters", ok=True, text=f"Each is one id: {known}." if known else "The format has no delimiters."
        )
    ]
    seen = {*prompt_ids.tolist(), *generation.output_ids.tolist()}
    unseen = [text for text in wanted if bound.ids[text] not in seen]
    if unseen:
        checks.append(
            Check(
                name="delimiters_seen",
                ok=None,
                text=f"Not met in the probe's prompt or answer: {' and '.join(unseen)}.",
            )
        )
    return checks


def _spread(tokenizer: Tokenizer) -> list[int]:
    whole = (number for number in np.linspace(0, tokenizer.vocabulary.size - 1, _SPREAD * 4, dtype=int).tolist())
    return [number for number in dict.fromkeys(whole) if tokenizer.kind_of(number) not in {"byte", "unknown"}][::4][
        :_SPREAD
    ]


async def _tokens(client: SglangClient, body: Mapping[str, Any]) -> list[int]:
    answer = await client.call("POST", "/tokenize", body)
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise GenerateError("malformed", 200, "/tokenize answered something that is no list of ids")
    return tokens


async def _detokenize(client: SglangClient, ids: list[int]) -> str:
    answer = await client.call("POST", "/detokenize", {"model": "default", "tokens": ids, "skip_special_tokens": False})
    text = answer.get("text") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        raise GenerateError("malformed", 200, "/detokenize answered something that is no text")
    return text


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int:
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))
