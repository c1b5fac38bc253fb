"""From what was asked to what will be done: each setting resolved once, with its source in words.

Nothing is sampled at a default nobody saw: a value comes from the request, else from the model's own files, else from the
defaults documented in `inference.runs.settings`; which one it was is recorded beside it.
"""

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from db.errors import Conflict, Invalid, NotFound
from db.tables import Backend, PromptSet
from db.types import now
from inference.context import Context
from inference.quality.guard import GuardSettings
from inference.runs.sampling import Resolution, check_sampling, resolve_sampling
from inference.runs.servers import ServerFacts, server_facts
from inference.runs.settings import (
    DEFAULT_CONCURRENCY,
    DEFAULT_CONTEXT,
    DEFAULT_TIMEOUT_S,
    NewRun,
    RenderFaults,
    RunSettings,
)
from inference.runs.switches import default_off, switched_off
from inference.tokens import formats
from inference.tokens.errors import TokensError
from inference.tokens.rendering import DATE_KEY
from inference.tokens.suggestion import suggest
from inference.tokens.tokenizer import Tokenizer


def find_backends(s: Session, ids: Sequence[int], *, field: str = "backend_ids") -> list[Backend]:
    """The backends named, in that order, each once.

    Raises:
        Invalid: `backend_unknown`, naming the first id that does not exist.
    """
    found = {backend.id: backend for backend in s.exec(select(Backend).where(col(Backend.id).in_(ids))).all()}
    for number in ids:
        if number not in found:
            raise Invalid("backend_unknown", f"There is no backend {number}.", field=field)
    return [found[number] for number in dict.fromkeys(ids)]


def find_prompt_set(s: Session, prompt_set_id: int) -> PromptSet:
    """A prompt set that can be run.

    Raises:
        NotFound: there is none of that id.
        Conflict: `prompt_set_not_ready`, it is still being read or its reading failed.
        Invalid: `prompt_set_empty`.
    """
    prompt_set = s.get(PromptSet, prompt_set_id)
    if prompt_set is None:
        raise NotFound("prompt set", prompt_set_id)
    if prompt_set.state != "ready":
        why = prompt_set.message or "its upload has not been read to the end"
        raise Conflict("prompt_set_not_ready", f"Prompt set {prompt_set.name} is {prompt_set.state}: {why}.")
    if prompt_set.accepted == 0:
        raise Invalid("prompt_set_empty", f"Prompt set {prompt_set.name} has no prompts.", field="prompt_set_id")
    return prompt_set


def count_prompts(prompt_set: PromptSet, categories: Sequence[str] | None, limit: int | None) -> int:
    """How many prompts a run takes.

    Raises:
        Invalid: `category_unknown`, naming a category that the set lacks and those it has.
    """
    known: dict[str, int] = prompt_set.categories
    if categories is None:
        total = prompt_set.accepted
    else:
        for name in categories:
            if name not in known:
                have = ", ".join(sorted(known)) or "none"
                raise Invalid(
                    "category_unknown",
                    f"Prompt set {prompt_set.name} has no category {name!r}; it has: {have}.",
                    field="categories",
                )
        total = sum(known[name] for name in dict.fromkeys(categories))
    return min(total, limit) if limit is not None else total


def load_tokenizer(ctx: Context, name: str, *, field: str = "tokenizer") -> Tokenizer:
    """The tokenizer of that path or hub id.

    Raises:
        Invalid: with the tokenizer room's code and sentence, at `field`.
    """
    try:
        return ctx.tokenizers.get(name)
    except TokensError as error:
        raise Invalid(error.code, error.message, field=field) from error


def resolve_settings(s: Session, ctx: Context, new: NewRun) -> tuple[RunSettings, Resolution, Tokenizer]:
    """Resolve, check and freeze.

    Raises:
        NotFound, Conflict, Invalid: with the field at fault.
    """
    notes = Resolution()
    prompt_set = find_prompt_set(s, new.prompt_set_id)
    count_prompts(prompt_set, new.categories, new.limit)
    backends = find_backends(s, new.backend_ids)
    facts = [server_facts(backend) for backend in backends]
    _same_model(backends, facts, notes)
    tokenizer = _tokenizer(ctx, new, backends[0], facts[0], notes)
    bound = _token_format(new, tokenizer, notes)
    context_length, max_prompt = _context(tokenizer, facts, notes)
    sampling = resolve_sampling(new.sampling, tokenizer, context_length, notes)
    vocab_size = _vocabulary(tokenizer, facts, notes)
    check_sampling(sampling, vocab_size)
    notes.note(
        "stop_ids",
        sorted(bound.stop_ids),
        "token format, and end-of-sequence ids of tokenizer, config and generation_config",
    )
    frozen = RunSettings(
        prompt_set_id=new.prompt_set_id,
        backend_ids=tuple(dict.fromkeys(new.backend_ids)),
        model=facts[0].model,
        tokenizer=tokenizer.name,
        tokenizer_sha256=tokenizer.sha256,
        template_sha256=tokenizer.template_sha256,
        vocab_size=vocab_size,
        stop_ids=tuple(sorted(bound.stop_ids)),
        token_format=bound.name,
        sampling=sampling,
        seed=_seed(new, notes),
        chat_template_kwargs=_template_kwargs(new, tokenizer, notes),
        context_length=context_length,
        max_prompt_tokens=max_prompt,
        repeats=new.repeats,
        categories=None if new.categories is None else tuple(dict.fromkeys(new.categories)),
        limit=new.limit,
        concurrency=_concurrency(new, facts, notes),
        timeout_s=_timeout(new, notes),
        tries=new.tries,
        guard=_guard(new, notes),
        checks_off=_checks_off(new, notes),
        render_faults=_render_faults(new, notes),
        role_map=_role_map(new, notes),
    )
    return frozen.model_copy(update={"sources": notes.sources}), notes, tokenizer


def _same_model(backends: list[Backend], facts: list[ServerFacts], notes: Resolution) -> None:
    first = facts[0].model
    for backend, fact in zip(backends[1:], facts[1:], strict=True):
        if first and fact.model and fact.model != first:
            notes.warnings.append(
                f"Backend {backend.name} serves {fact.model}, {backends[0].name} serves {first}: "
                "one run would mix the answers of two models."
            )
    notes.note("model", first, f"what backend {backends[0].name} serves or is to be started with")


def _tokenizer(ctx: Context, new: NewRun, backend: Backend, facts: ServerFacts, notes: Resolution) -> Tokenizer:
    if new.tokenizer:
        name, source = new.tokenizer, "request"
    elif facts.tokenizer:
        name, source = facts.tokenizer, f"backend {backend.name}: the tokenizer of its model"
    else:
        raise Invalid(
            "tokenizer_unknown",
            f"Backend {backend.name} has not said which model it serves: name a tokenizer, or wait until it is ready.",
            field="tokenizer",
        )
    tokenizer = load_tokenizer(ctx, name)
    notes.note("tokenizer", tokenizer.name, source)
    probed = (backend.probe or {}).get("tokenizer_sha256")
    if probed and probed != tokenizer.sha256:
        notes.warnings.append(
            f"Backend {backend.name} was probed with {(backend.probe or {}).get('tokenizer')}, whose files differ from those "
            f"of {tokenizer.name}: nobody has shown that an id means the same on both sides."
        )
    if tokenizer.template is None:
        raise Invalid(
            "template_missing",
            f"Tokenizer {name} has no chat template, and none is used in its place: put the model's chat_template.jinja into its "
            "folder, or name a tokenizer that has one.",
            field="tokenizer",
        )
    return tokenizer


def _token_format(new: NewRun, tokenizer: Tokenizer, notes: Resolution) -> formats.BoundFormat:
    if new.token_format:
        name, source = new.token_format, "request"
    else:
        suggestion = suggest(tokenizer)
        name, source = suggestion.name, f"tokenizer: {suggestion.reason}"
    try:
        bound = formats.bind(formats.get_format(name), tokenizer)
    except TokensError as error:
        raise Invalid(error.code, error.message, field="token_format") from error
    told = [remark for remark in bound.remarks if remark not in source]
    notes.note("token_format", name, " ".join([source, *told]))
    return bound


def _vocabulary(tokenizer: Tokenizer, facts: list[ServerFacts], notes: Resolution) -> int:
    said = [fact.vocab_size for fact in facts if fact.vocab_size]
    size = min([tokenizer.vocab_size, *said])
    own = size == tokenizer.vocab_size
    notes.note(
        "vocab_size", size, "tokenizer and its model's config" if own else "server: smaller than the tokenizer's"
    )
    return size


def _context(tokenizer: Tokenizer, facts: list[ServerFacts], notes: Resolution) -> tuple[int, int]:
    """The context length and the longest prompt, in tokens: the smallest of what the servers say, else the model's own."""
    said = [fact.context_length for fact in facts if fact.context_length]
    own = tokenizer.model_config.get("max_position_embeddings")
    if said:
        length, source = min(said), "server: the smallest context_length of the backends"
    elif isinstance(own, int) and own > 0:
        length, source = own, "model config: max_position_embeddings (no backend has said its own yet)"
    else:
        length, source = DEFAULT_CONTEXT, "default: neither a backend nor the model's config says it"
    notes.note("context_length", length, source)
    inputs = [fact.max_input for fact in facts if fact.max_input]
    room = (
        length - 7
    )  # protocol reference, length rules: max_req_input_len is context − 6, and a prompt must be below it
    longest = max(1, min([room, *(number - 1 for number in inputs)]))
    source = "server: below its max_req_input_len" if inputs else "context_length less what SGLang keeps for itself"
    notes.note("max_prompt_tokens", longest, source)
    return length, longest


def _template_kwargs(new: NewRun, tokenizer: Tokenizer, notes: Resolution) -> dict[str, Any]:
    """The template's arguments; a template that reads the date gets one that stays, so that a prompt's ids do too."""
    given = new.chat_template_kwargs
    if DATE_KEY not in (tokenizer.template or ""):
        return given
    name = f"chat_template_kwargs.{DATE_KEY}"
    if DATE_KEY in given:
        notes.note(name, given[DATE_KEY], "request")
        return given
    today = now().date().isoformat()
    notes.note(name, today, "the day of the launch (UTC), since the chat template writes the date")
    return {**given, DATE_KEY: today}


def _checks_off(new: NewRun, notes: Resolution) -> tuple[str, ...]:
    off = switched_off(new.checks)
    asked = [code for code, on in new.checks.items() if on != (code not in default_off())]
    notes.note("checks_off", list(off), f"request ({', '.join(sorted(asked))}), else defaults" if asked else "defaults")
    return off


def _render_faults(new: NewRun, notes: Resolution) -> RenderFaults:
    asked = "render_faults" in new.model_fields_set
    notes.note("render_faults", new.render_faults, "request" if asked else "default")
    return new.render_faults


def _role_map(new: NewRun, notes: Resolution) -> dict[str, str]:
    asked = "role_map" in new.model_fields_set
    notes.note("role_map", new.role_map, "request" if asked else "default: every role as it is")
    return dict(new.role_map)


def _seed(new: NewRun, notes: Resolution) -> int:
    if new.seed is not None:
        notes.note("seed", new.seed, "request")
        return new.seed
    notes.note("seed", 0, "default; each attempt's own seed is made from it")
    return 0


def _concurrency(new: NewRun, facts: list[ServerFacts], notes: Resolution) -> int:
    if new.concurrency is not None:
        notes.note("concurrency", new.concurrency, "request")
        return new.concurrency
    running = [fact.max_running for fact in facts if fact.max_running]
    value = min([DEFAULT_CONCURRENCY, *(2 * number for number in running)])
    source = "default" if value == DEFAULT_CONCURRENCY else "server: twice what it decodes at once"
    notes.note("concurrency", value, f"{source}, for each backend")
    return value


def _timeout(new: NewRun, notes: Resolution) -> float:
    value = new.timeout_s or DEFAULT_TIMEOUT_S
    notes.note("timeout_s", value, "request" if new.timeout_s else "default")
    return value


def _guard(new: NewRun, notes: Resolution) -> GuardSettings | None:
    value = GuardSettings() if new.guard_left_out else new.guard
    source = "default thresholds" if new.guard_left_out else "request"
    notes.note("guard", None if value is None else value.model_dump(mode="json"), source)
    return value
