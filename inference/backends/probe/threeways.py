"""One prompt, asked three ways: through the chat endpoint with the server's parsers, as `/generate`'s text, and as ids.

Text and ids are of one and the same answer. The chat answer is one of its own, so it is held against the ids that it says it
was made from. What each way loses is said in words; ids lose nothing, and that is the reason to keep them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from inference.backends.server.client import GenerateError, Generation
from inference.model import View
from inference.tokens.formats import BoundFormat
from inference.tokens.ids import Ids
from inference.tokens.pieces import pieces
from inference.tokens.tokenizer import Tokenizer


class WayPiece(View):
    """One token of the answer: its id, what it adds to the text, and its kind (text, special, added, byte, unknown)."""

    id: int
    text: str
    kind: str


class ChatWay(View):
    """The chat endpoint's message, as it came; `error` where there was none. `output_ids`: those it says it was made from."""

    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    finish_reason: str | None = None
    error: str | None = None
    output_ids: list[int] | None = None
    losses: list[str] = Field(default_factory=list)


class TextWay(View):
    """`/generate`'s `text`; None where the server runs without a tokenizer."""

    text: str | None = None
    losses: list[str] = Field(default_factory=list)


class IdsWay(View):
    """The ids, piece by piece, and the whole decoded here with every control token spelled out."""

    output_ids: list[int]
    text: str
    pieces: list[WayPiece]
    finish_reason: str


class ThreeWays(View):
    """The question, the three answers, and all losses in one list, each naming its way."""

    prompt: str
    chat: ChatWay
    text: TextWay
    ids: IdsWay
    losses: list[str]


def chat_way(answer: object) -> ChatWay:
    """Reads a chat completion leniently; whatever it is, something can be shown."""
    if isinstance(answer, GenerateError):
        return ChatWay(error=answer.message)
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return ChatWay(error="The chat endpoint answered without a message.")
    ids = choice.get("response_token_ids")
    calls = message.get("tool_calls")
    return ChatWay(
        content=_text(message.get("content")),
        reasoning_content=_text(message.get("reasoning_content", message.get("reasoning"))),
        tool_calls=[dict(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else [],
        finish_reason=_text(choice.get("finish_reason")),
        output_ids=ids if isinstance(ids, list) and all(type(item) is int and item >= 0 for item in ids) else None,
    )


def compare(
    tokenizer: Tokenizer,
    bound: BoundFormat | None,
    question: str,
    prompt_ids: Ids,
    generation: Generation,
    chat: ChatWay,
) -> ThreeWays:
    """Puts the three side by side and says what each loses."""
    output = generation.output_ids
    text_losses = _text_losses(tokenizer, bound, output, generation.text)
    chat_ids = output if chat.output_ids is None else np.array(chat.output_ids, dtype=np.uint32)
    chat_losses = _chat_losses(tokenizer, bound, prompt_ids, chat_ids, chat)
    if chat.output_ids is not None and not np.array_equal(chat_ids, output):
        chat_losses.append(
            "chat gave another answer than the one by ids: greedy decoding varies with what is computed beside it."
        )
    shown = [WayPiece(id=piece.id, text=piece.text, kind=piece.kind) for piece in pieces(tokenizer, output)]
    matched = "" if generation.finish_matched is None else f" ({generation.finish_matched})"
    return ThreeWays(
        prompt=question,
        chat=chat.model_copy(update={"losses": chat_losses}),
        text=TextWay(text=generation.text, losses=text_losses),
        ids=IdsWay(
            output_ids=output.tolist(),
            text=tokenizer.decode(output),
            pieces=shown,
            finish_reason=f"{generation.finish_type}{matched}",
        ),
        losses=[*text_losses, *chat_losses],
    )


def _text_losses(tokenizer: Tokenizer, bound: BoundFormat | None, output: Ids, text: str | None) -> list[str]:
    if text is None:
        return ["text is not given at all: the server runs without a tokenizer."]
    losses = []
    if missing := _missing(tokenizer, bound, output, text):
        losses.append(f"text lost {_listed(missing)}.")
    again = tokenizer.encode(text)
    if again != output.tolist():
        losses.append(
            f"text, encoded again, gives {len(again)} ids where the model made {len(output)}: another sequence."
        )
    return losses


def _chat_losses(
    tokenizer: Tokenizer, bound: BoundFormat | None, prompt_ids: Ids, output: Ids, chat: ChatWay
) -> list[str]:
    if chat.error is not None:
        return [f"chat gave no answer: {chat.error}"]
    losses = []
    content, reasoning = chat.content or "", chat.reasoning_content or ""
    calls = "".join(str(call) for call in chat.tool_calls)
    if missing := _missing(tokenizer, bound, output, f"{reasoning}{content}{calls}"):
        losses.append(f"chat lost {_listed(missing)}.")
    if bound is not None:
        losses += _part_losses(tokenizer, bound, prompt_ids, output, chat)
    if chat.output_ids is None:
        losses.append("chat carries no ids.")
    return losses


def _part_losses(tokenizer: Tokenizer, bound: BoundFormat, prompt_ids: Ids, output: Ids, chat: ChatWay) -> list[str]:
    parts: dict[str, list[str]] = {}
    for segment in bound.segment(prompt_ids, output).segments:
        parts.setdefault(segment.kind, []).append(tokenizer.decode(output[segment.start : segment.end]))
    thought, said, calls = ("".join(parts.get(kind, [])) for kind in ("reasoning", "content", "tool_call"))
    content, reasoning = chat.content or "", chat.reasoning_content or ""
    losses = []
    if thought.strip() and not reasoning.strip():
        where = "the think block sits in content" if thought.strip() in content else "the think block is nowhere"
        losses.append(f"chat returned reasoning_content empty; {where}.")
    elif thought.strip() and reasoning.strip() != thought.strip():
        losses.append("chat cut the reasoning elsewhere than the ids do.")
    elif thought != reasoning:
        losses.append("chat trimmed the whitespace around the reasoning.")
    if said.strip() and not content.strip():
        where = "the answer sits in reasoning_content" if said.strip() in reasoning else "the answer is nowhere"
        losses.append(f"chat returned content empty; {where}.")
    elif said.strip() and said.strip() not in content:
        losses.append("chat's content is not what the ids say.")
    if calls and not chat.tool_calls:
        losses.append(
            "chat returned no tool_calls; the call "
            + ("sits in content." if calls.strip() in content else "is nowhere.")
        )
    return losses


def _missing(tokenizer: Tokenizer, bound: BoundFormat | None, output: Ids, text: str) -> list[str]:
    """Control tokens of the answer that the text has fewer of, in order of appearance."""
    watched = tokenizer.special_ids | tokenizer.stop_ids | frozenset(bound.ids.values() if bound else ())
    counted = Counter(number for number in output.tolist() if number in watched)
    lost = []
    for number, times in counted.items():
        spelled = tokenizer.token_text(number)
        gone = times - text.count(spelled)
        if spelled and gone > 0:
            lost.append(spelled if gone == 1 else f"{spelled} ({gone} times)")
    return lost


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
