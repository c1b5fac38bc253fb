"""The fidelity probe as the supervisor makes it: with the tokenizer of the server's model, where that can be loaded here."""

import asyncio
from typing import Any, Final

import numpy as np

from db.tables import Backend
from db.types import now
from inference.backends.probe import fidelity
from inference.backends.probe.fidelity import Check
from inference.backends.probe.probe import TIMEOUT_S, ProbeReport, probe
from inference.backends.server.client import SglangClient, new_rid
from inference.backends.supervision.surroundings import Prober
from inference.context import Context
from inference.tokens.errors import TokensError
from inference.tokens.formats import BoundFormat, bind, get_format
from inference.tokens.suggestion import suggest
from inference.tokens.tokenizer import Tokenizer

_LOW_IDS: Final = 16
"""The first ids of a vocabulary; every model has so many"""


def prober_of(ctx: Context) -> Prober:
    """A prober that takes tokenizers from the context's cache."""

    async def run(client: SglangClient, backend: Backend) -> dict[str, Any]:
        try:
            tokenizer, bound = await asyncio.to_thread(_tokenizer, ctx, backend)
        except TokensError as error:
            report = await _without_tokenizer(client, backend, str(error))
        else:
            ours = (backend.server_info or {}).get("weight_version") if backend.kind == "managed" else None
            report = await probe(client, tokenizer, bound, weight_version=ours)
        return report.model_dump(mode="json")

    return run


def tokenizer_name(backend: Backend) -> str | None:
    """What the server's tokenizer is called: its own word first, then its launch."""
    info, launch = backend.server_info or {}, backend.launch or {}
    for source in (info.get("tokenizer_path"), launch.get("tokenizer_path"), launch.get("model_path"), backend.model):
        if isinstance(source, str) and source:
            return source
    return None


def _tokenizer(ctx: Context, backend: Backend) -> tuple[Tokenizer, BoundFormat]:
    name = tokenizer_name(backend)
    if name is None:
        raise TokensError("tokenizer_unnamed", "The server does not say which tokenizer it uses.")
    tokenizer = ctx.tokenizers.get(name)
    return tokenizer, bind(get_format(suggest(tokenizer).name), tokenizer)


async def _without_tokenizer(client: SglangClient, backend: Backend, trouble: str) -> ProbeReport:
    """What can be judged by the server's own word; a run that names a tokenizer it can load may still use it."""
    server = await fidelity.told_of_itself(client)
    text = (
        f"The server's tokenizer cannot be loaded here ({trouble}), so its vocabulary and rendering were not compared "
        "with ours. Put the tokenizer under a model root, or name another place of it in the run."
    )
    checks = [*fidelity.router(server), fidelity.version(server), fidelity.auto_truncate(server)]
    checks.append(Check(name="tokenizer", ok=None, text=text))
    sent = np.arange(_LOW_IDS, dtype=np.uint32)
    answer = await client.generate(sent, {"temperature": 0.0, "max_new_tokens": 1}, new_rid(), TIMEOUT_S)
    seen = await fidelity.seen_by_logprobs(client, sent, TIMEOUT_S) if answer.prompt_ids is None else None
    checks += [fidelity.echo(sent, answer, seen), fidelity.counts(sent, answer)]
    refusals = [check.text for check in checks if check.ok is False]
    return ProbeReport(
        ok=not refusals,
        refusals=refusals,
        notes=[check.text for check in checks if check.ok is None],
        checks=checks,
        tokenizer=tokenizer_name(backend) or "",
        tokenizer_sha256="",
        server=server,
        weight_versions=[] if answer.weight_version is None else [answer.weight_version],
        at=now(),
    )
