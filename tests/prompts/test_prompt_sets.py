"""Prompt sets as a whole: stored verbatim, bounded, listed, deleted, and safe against what happens in the middle."""

import asyncio
import errno
import hashlib
import io
from collections.abc import AsyncIterator

import pytest
from sqlmodel import col, select

from db.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable
from db.tables import Prompt, PromptSet, Run
from inference.prompts import tally, uploads
from inference.prompts.service import (
    create_prompt_set,
    delete_prompt_set,
    fail_interrupted_uploads,
    list_errors,
    list_prompt_sets,
    list_prompts,
    prompt_set_view,
)
from tests.prompts.uploading import Desk


async def pieces(data: bytes, size: int = 7) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def small(desk: Desk) -> Desk:
    settings = desk.ctx.settings.model_copy(update={"max_upload_mb": 1})
    return Desk(desk.ctx.__class__(settings, desk.ctx.db, desk.ctx.ids, desk.ctx.tokenizers))


def assert_nothing_left(desk: Desk) -> None:
    with desk.ctx.db.read() as s:
        assert list_prompt_sets(s).items == []
        assert s.exec(select(Prompt)).first() is None
    folder = desk.ctx.settings.data_dir / "uploads"
    assert not folder.exists() or list(folder.iterdir()) == []


def test_upload_is_kept_verbatim_and_known_by_its_hash(any_desk: Desk) -> None:
    data = b'\xef\xbb\xbf{"prompt":"a","category":"x"}\r\n{"broken\n'
    made = any_desk.upload(data, r"C:\Users\me\..\prompts.jsonl", stream=pieces(data))
    assert (made.file_name, made.size_bytes, made.sha256) == (
        "prompts.jsonl",
        len(data),
        hashlib.sha256(data).hexdigest(),
    )
    path = any_desk.ctx.settings.data_dir / "uploads" / str(made.id) / "original.jsonl"
    assert path.read_bytes() == data
    with any_desk.ctx.db.read() as s:
        stored = s.get_one(PromptSet, made.id)
        assert stored.file_path == f"uploads/{made.id}/original.jsonl"
        assert prompt_set_view(s, made.id) == made
    assert (made.accepted, made.rejected, made.categories) == (1, 1, {"x": 1})


@pytest.mark.parametrize("as_file", [True, False])
def test_upload_over_the_limit_is_refused_with_the_limit_and_leaves_nothing(desk: Desk, as_file: bool) -> None:
    data = b'{"prompt":"a"}\n' * 100_000
    stream = io.BytesIO(data) if as_file else pieces(data, 65_536)
    with pytest.raises(TooLarge, match=r"larger than 1 MiB.*DRAFTMILL_MAX_UPLOAD_MB"):
        small(desk).upload(data, stream=stream)
    assert_nothing_left(desk)


def test_sender_that_goes_away_leaves_nothing(desk: Desk) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b'{"prompt":"a"}\n'
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        desk.upload(b"", stream=broken())
    assert_nothing_left(desk)


def test_cancelled_upload_leaves_nothing(desk: Desk) -> None:
    async def scenario() -> None:
        started = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield b"x"
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(create_prompt_set(desk.ctx, name="n", stream=endless(), file_name="x.jsonl"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert_nothing_left(desk)


def test_full_disk_is_said_and_leaves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: object, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(uploads._Sink, "write", full)
    with pytest.raises(Unavailable, match="full"):
        desk.upload(b'{"prompt":"a"}')
    assert_nothing_left(desk)


def test_set_takes_its_name_from_the_file_where_none_is_given(desk: Desk) -> None:
    made = asyncio.run(create_prompt_set(desk.ctx, name=" ", stream=io.BytesIO(b"a\n"), file_name="a/b/questions.txt"))
    assert made.name == "questions.txt"


def test_many_rows_go_in_batches_and_are_paged_by_key(any_desk: Desk) -> None:
    lines = b"".join(
        b'{"id":"p%d","prompt":"q","category":"%s"}\n' % (n, b"even" if n % 2 == 0 else b"odd") for n in range(2_500)
    )
    made = any_desk.upload(lines)
    assert made.accepted == 2_500
    assert made.categories == {"even": 1250, "odd": 1250}
    seen, after = [], None
    with any_desk.ctx.db.read() as s:
        while True:
            page = list_prompts(s, made.id, "odd", after, limit=400)
            seen += [prompt.source_id for prompt in page.items]
            after = page.next
            if after is None:
                break
    assert seen == [f"p{n}" for n in range(1, 2_500, 2)]


def test_listed_errors_are_bounded_and_counts_exact(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MAX_LISTED", 30)
    made = desk.upload(b"nope\n" * 2_000 + b'{"id":"a","prompt":"x"}\n' * 2_001)
    assert (made.accepted, made.rejected, made.warnings) == (2_001, 2_000, 2_000)
    assert len(made.errors) == 20
    assert len(desk.errors(made)) == 60
    assert "first 30" in made.message
    with desk.ctx.db.read() as s:
        first = list_errors(s, made.id, limit=25)
        second = list_errors(s, made.id, first.next, limit=500)
    assert [error.line for error in first.items] == list(range(1, 26))
    assert len(second.items) == 35
    assert second.next is None


def test_refusals_come_before_warnings_in_the_answer(desk: Desk) -> None:
    rows = [{"id": "a", "prompt": "x"}] * 30
    made = desk.rows(*rows, {"nothing": 1})
    assert [error.severity for error in made.errors] == ["error"] + ["warning"] * 19


def test_column_that_is_no_category_does_not_swamp_the_set(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MAX_CATEGORIES", 3)
    made = desk.rows(*({"prompt": "x", "source": f"url{n}"} for n in range(10)))
    assert made.categories == {"url0": 1, "url1": 1, "url2": 1}
    assert "7 rows" in made.message


def test_sets_are_listed_newest_first(desk: Desk) -> None:
    made = [desk.rows({"prompt": "x"}).id for _ in range(3)]
    with desk.ctx.db.read() as s:
        page = list_prompt_sets(s, limit=2)
        rest = list_prompt_sets(s, page.next, limit=2)
        with pytest.raises(Invalid):
            list_prompt_sets(s, "nonsense")
    assert [view.id for view in (*page.items, *rest.items)] == made[::-1]


def test_set_in_use_is_not_deleted(any_desk: Desk) -> None:
    made = any_desk.rows({"prompt": "x"})
    with any_desk.ctx.db.write() as s:
        s.add(Run(name="r", prompt_set_id=made.id))
    with pytest.raises(Conflict, match="used by run"):
        delete_prompt_set(any_desk.ctx, made.id)
    assert len(any_desk.stored(made)) == 1


def test_deleted_set_leaves_no_row_and_no_file(any_desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.prompts.service._DELETE_BATCH", 3)
    kept, made = any_desk.rows({"prompt": "keep"}), any_desk.rows(*[{"prompt": "x"}] * 10, {"bad": 1})
    delete_prompt_set(any_desk.ctx, made.id)
    with any_desk.ctx.db.read() as s:
        assert s.exec(select(col(Prompt.prompt_set_id))).all() == [kept.id]
        with pytest.raises(NotFound):
            prompt_set_view(s, made.id)
    assert [path.name for path in (any_desk.ctx.settings.data_dir / "uploads").iterdir()] == [str(kept.id)]
    with pytest.raises(NotFound):
        delete_prompt_set(any_desk.ctx, made.id)


def test_set_being_read_is_not_deleted_and_an_interrupted_one_says_so(desk: Desk) -> None:
    with desk.ctx.db.write() as s:
        s.add(PromptSet(name="x"))
        s.flush()
        (set_id,) = s.exec(select(col(PromptSet.id))).all()
    with pytest.raises(Conflict, match="being read"):
        delete_prompt_set(desk.ctx, set_id)
    with desk.ctx.db.write() as s:
        assert fail_interrupted_uploads(s) == 1
    with desk.ctx.db.read() as s:
        view = prompt_set_view(s, set_id)
    assert view.state == "failed"
    assert "upload the file again" in view.message
    delete_prompt_set(desk.ctx, set_id)
