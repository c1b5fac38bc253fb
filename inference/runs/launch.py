"""Launching: what a run would do, shown before it does it, and the same thing frozen."""

from sqlmodel import Session, col, select

from db.tables import Prompt, PromptSet, Run, RunBackend, RunEvent
from inference.context import Context
from inference.prompts.service import prompt_bodies
from inference.runs.rendering import prompt_flags, render_body
from inference.runs.resolve import count_prompts, resolve_settings
from inference.runs.settings import NewRun, RunSettings, fingerprint
from inference.runs.views import RunPreview
from inference.tokens.errors import TokensError
from inference.tokens.tokenizer import Tokenizer


def preview_run(s: Session, ctx: Context, new: NewRun) -> RunPreview:
    """What `create_run` would do: every resolved value with its source, and the first prompt rendered. Changes nothing.

    Raises:
        NotFound, Conflict, Invalid: as `create_run`.
    """
    settings, notes, tokenizer = resolve_settings(s, ctx, new)
    warnings = list(notes.warnings)
    example = _first_prompt(s, settings)
    text, tokens = None, None
    if example is not None:
        text, tokens, said = _render_example(s, example, settings, tokenizer)
        warnings += said
    return RunPreview(
        settings=settings.model_dump(mode="json"),
        resolved=notes.items,
        fingerprint=fingerprint(settings),
        samples=wanted_samples(s, settings),
        example_prompt_id=None if example is None else example.id,
        example_text=text,
        example_tokens=tokens,
        warnings=warnings,
    )


def create_run(s: Session, ctx: Context, new: NewRun, user_id: int | None) -> Run:
    """Freeze the settings and queue the run; the worker plans its samples and starts it when a backend is ready.

    Raises:
        NotFound: no such prompt set.
        Conflict: the prompt set is not ready.
        Invalid: with the field at fault.
    """
    settings, _, _ = resolve_settings(s, ctx, new)
    run = Run(
        name=new.name,
        prompt_set_id=new.prompt_set_id,
        settings=settings.model_dump(mode="json"),
        fingerprint=fingerprint(settings),
        created_by=user_id,
    )
    s.add(run)
    s.flush()
    assert run.id is not None  # noqa: S101  (flushed just above)
    for backend_id in settings.backend_ids:
        s.add(RunBackend(run_id=run.id, backend_id=backend_id))
    count = wanted_samples(s, settings)
    s.add(RunEvent(run_id=run.id, kind="created", message=f"Launched for {count:,} samples."))
    s.flush()
    return run


def wanted_samples(s: Session, settings: RunSettings) -> int:
    """Prompts times repeats."""
    prompt_set = s.get(PromptSet, settings.prompt_set_id)
    assert prompt_set is not None  # noqa: S101  (a run keeps its prompt set from being deleted)
    return count_prompts(prompt_set, settings.categories, settings.limit) * settings.repeats


def _first_prompt(s: Session, settings: RunSettings) -> Prompt | None:
    query = select(Prompt).where(col(Prompt.prompt_set_id) == settings.prompt_set_id)
    if settings.categories is not None:
        query = query.where(col(Prompt.category).in_(settings.categories))
    return s.exec(query.order_by(col(Prompt.id)).limit(1)).first()


def _render_example(
    s: Session, example: Prompt, settings: RunSettings, tokenizer: Tokenizer
) -> tuple[str | None, int | None, list[str]]:
    assert example.id is not None  # noqa: S101  (read from the database)
    body = prompt_bodies(s, [example.id])[example.id]
    try:
        rendered = render_body(tokenizer, settings, body)
    except TokensError as error:
        return None, None, [f"The first prompt ({example.source_id}) cannot be rendered: {error.message}"]
    said = [
        f"The first prompt ({example.source_id}): {flag.message}"
        for flag in prompt_flags(rendered, settings.checks_off)
    ]
    count = len(rendered.ids)
    if count > settings.max_prompt_tokens:
        said.append(
            f"The first prompt ({example.source_id}) has {count:,} tokens, more than the {settings.max_prompt_tokens:,} "
            "that fit: it will fail as prompt_too_long."
        )
    return rendered.text, count, said
