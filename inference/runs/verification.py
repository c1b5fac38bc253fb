"""Whether an answer counts. Nothing is trimmed, guessed or repaired: an answer that does not add up is a named failure.

The client has refused already what is no answer at all: an abort or a sampled NaN behind an HTTP 200, an unknown finish
reason, another request's id. Here the figures are held against what was sent; SGLang before 0.5.5, for one, put the end of
the prompt into `output_ids` (sglang#17240, #17323).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from db.idstore import Ids
from inference.backends.server.client import Generation

_UNDER_LOCK: Final = 500


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an answer does not count."""

    code: str
    message: str


def verify(
    sent: Ids, answer: Generation, *, vocab_size: int, weight_versions: Collection[str], echo_due: bool = True
) -> Refusal | None:
    """None where the answer counts.

    Args:
        sent: uint32[p], the prompt ids as they were sent.
        answer: what the server sent back.
        vocab_size: ids must be below it.
        weight_versions: those this server was started or probed with; empty = not known, not compared.
        echo_due: whether an answer without the prompt's ids is refused. False behind a router that drops the request for them:
            then the server's count of them is all there is, and ids that do come are still compared.
    """
    return (
        _lengths(sent, answer)
        or _echo(sent, answer, due=echo_due)
        or _ids(answer, vocab_size)
        or _weights(answer, weight_versions)
    )


def _lengths(sent: Ids, answer: Generation) -> Refusal | None:
    got = len(answer.output_ids)
    if got != answer.completion_tokens:
        return Refusal(
            "length_mismatch",
            f"The server counts {answer.completion_tokens} completion tokens and sent {got} output ids.",
        )
    if answer.prompt_tokens != len(sent):
        return Refusal(
            "prompt_mismatch", f"{len(sent)} prompt ids were sent; the server counts {answer.prompt_tokens}."
        )
    if not got:
        return Refusal("output_empty", "The server generated nothing: not even a stop id.")
    return None


def _echo(sent: Ids, answer: Generation, *, due: bool) -> Refusal | None:
    echo = answer.prompt_ids
    if echo is None and not due:
        return None
    if echo is None:
        return Refusal("echo_missing", "The server did not send back prompt_token_ids, so what it saw is not proven.")
    if echo.tobytes() != sent.tobytes():
        if len(echo) != len(sent):
            return Refusal("echo_mismatch", f"{len(sent)} prompt ids were sent and {len(echo)} came back.")
        where = int(np.flatnonzero(echo != sent)[0])
        return Refusal(
            "echo_mismatch", f"Prompt id {where} was sent as {int(sent[where])} and came back as {int(echo[where])}."
        )
    return None


def _ids(answer: Generation, vocab_size: int) -> Refusal | None:
    # numpy lets go of the interpreter lock for arrays of more than 500, and the event loop would wait milliseconds for it
    ids = answer.output_ids
    worst = max(int(ids[start : start + _UNDER_LOCK].max()) for start in range(0, len(ids), _UNDER_LOCK))
    if worst >= vocab_size:
        return Refusal(
            "id_out_of_vocabulary",
            f"Output id {int(ids.argmax())} is {worst}, outside the model's vocabulary of {vocab_size}.",
        )
    return None


def _weights(answer: Generation, weight_versions: Collection[str]) -> Refusal | None:
    if weight_versions and answer.weight_version not in weight_versions:
        known = " or ".join(repr(version) for version in sorted(weight_versions))
        return Refusal(
            "weight_version_mismatch",
            f"The answer comes from weights {answer.weight_version!r}; this server was checked with {known}.",
        )
    return None
