"""File reading: what a person's file may look like, and what they are told when it is broken."""

import gzip
import io
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from db.errors import Invalid, TooLarge
from inference.prompts.formats import json_array
from inference.prompts.jsontext import JsonReader
from inference.prompts.rows import FileBroken, RawRow, RefusedRow
from tests.prompts.uploading import Desk

BOM = b"\xef\xbb\xbf"


def ids(desk: Desk, made) -> list[str]:
    return [prompt.source_id for prompt, _ in desk.stored(made)]


def test_byte_order_mark_is_no_part_of_the_first_key(desk: Desk) -> None:
    made = desk.upload(BOM + b'{"id":"a","prompt":"hi"}\n{"id":"b","prompt":"yo"}\n')
    assert (made.state, made.accepted, made.rejected) == ("ready", 2, 0)
    assert ids(desk, made) == ["a", "b"]
    made = desk.upload(BOM + b"id,prompt\na,hi\nb,yo\n", "rows.csv")
    assert ids(desk, made) == ["a", "b"]
    made = desk.upload(BOM + b'[{"id":"a","prompt":"hi"}]', "rows.json")
    assert ids(desk, made) == ["a"]
    made = desk.upload(BOM + b'{"id":"a","prompt":"x"}\n' + BOM + b'{"id":"b","prompt":"joined"}\n')
    assert ids(desk, made) == ["a", "b"]


def test_mixed_line_ends_blank_lines_and_a_trailing_comma_line(desk: Desk) -> None:
    made = desk.upload(b'{"id":"1","prompt":"a"}\r\n\r\n{"id":"2","prompt":"b"},\r\n{"id":"3","prompt":"c"}\r\n')
    assert (made.accepted, made.rejected) == (2, 1)
    assert [prompt.line for prompt, _ in desk.stored(made)] == [1, 4]
    (error,) = made.errors
    assert (error.line, error.code, error.severity) == (3, "not_json", "error")
    assert "comma" in error.message
    assert desk.messages(made) == [[{"role": "user", "content": "a"}], [{"role": "user", "content": "c"}]]


def test_unpaired_surrogate_refuses_its_row_and_no_other(any_desk: Desk) -> None:
    made = any_desk.upload(
        b'{"prompt":"x\\ud83d y"}\n{"prompt":"\\ud83d\\ude42"}\n{"messages":[{"role":"user","content":"ok \\ude42"}]}\n'
        b'{"id":"\\ud800","prompt":"x"}\n{"prompt":"x","tools":[{"name":"f","parameters":{"\\udfff":1}}]}\n'
    )
    assert any_desk.messages(made) == [[{"role": "user", "content": "\U0001f642"}]]
    assert [(e.line, e.code) for e in made.errors] == [(n, "unpaired_surrogate") for n in (1, 3, 4, 5)]
    assert made.errors[0].message == "invalid text: unpaired surrogate U+D83D at messages[0].content, character 2"


def test_numbers_that_break_other_readers_are_row_messages(any_desk: Desk) -> None:
    lines = [
        b'{"prompt":"long","n":' + b"9" * 5000 + b"}",
        b'{"prompt":"id","id":9223372036854775808}',
        b'{"prompt":"nan","x":NaN}',
        b'{"prompt":"inf","x":-Infinity}',
        b'{"prompt":"deep","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"prompt":"first","prompt":"twice","id":1,"id":2}',
        b'{"prompt":"last"}',
    ]
    made = any_desk.upload(b"\n".join(lines))
    assert any_desk.codes(made) == [
        (1, "error", "number_too_long"),
        (3, "error", "number_not_json"),
        (4, "error", "number_not_json"),
        (5, "error", "nested_too_deep"),
        (6, "warning", "duplicate_key"),
        (6, "warning", "duplicate_key"),
    ]
    assert ids(any_desk, made) == ["9223372036854775808", "2", "line-7"]
    assert (made.accepted, made.rejected, made.warnings) == (3, 4, 2)


def test_stored_nesting_is_bounded_so_that_later_readers_are_safe(desk: Desk) -> None:
    nested: object = 1
    for _ in range(300):
        nested = {"a": nested}
    made = desk.rows({"prompt": "x", "tools": [{"name": "f", "parameters": nested}]}, {"prompt": "fine"})
    assert desk.codes(made) == [(1, "error", "nested_too_deep")]


@pytest.mark.parametrize(
    ("data", "name", "parts"),
    [
        (b"", "empty.jsonl", ["empty.jsonl", "empty"]),
        (b"\n \n\r\n", "blank.jsonl", ["blank.jsonl", "blank lines"]),
        (b'[{"prompt":"a"},{"prompt":"b"}]', "array.jsonl", ["array.jsonl", "line 1", "JSON array", ".json"]),
        (b'\n[\n{"prompt":"a"},\n{"prompt":"b"}\n]\n', "pretty.jsonl", ["pretty.jsonl", "line 2", "JSON array"]),
        (b'{"prompt":\n', "cut.jsonl", ["cut.jsonl", "line 1", "not JSON"]),
        (b'{"text_":"a"}\n', "keys.jsonl", ["keys.jsonl", "line 1", "prompt", "text_"]),
        (b"[]", "none.json", ["none.json", "no rows"]),
        (b"id,prompt\n", "head.csv", ["head.csv", "no rows"]),
        (b"id,prompt,prompt\n1,a,b\n", "twice.csv", ["twice.csv", "prompt", "twice"]),
        (b"PAR1 but not really PAR1", "bad.parquet", ["bad.parquet", "Parquet"]),
        (b'{"prompt":"a"}\n', "lines.parquet", ["lines.parquet", "Parquet"]),
        (b'{"id":"a","prompt":"b"}\n', "lines.csv", ["lines.csv", "header", "JSON", ".jsonl"]),
        (b'\n"id,prompt\na,b\n', "quote.csv", ["quote.csv", "header", "not a CSV record"]),
        (b'{\n "prompt": "a"\n}\n', "pretty.json", ["pretty.json", "line 1", "one line", "JSON array"]),
        (b'{"prompt": null}\n', "null.jsonl", ["null.jsonl", "line 1", "`prompt` is empty"]),
        (b'{"prompt":"not an array"}', "odd.json.txt", None),
    ],
)
def test_file_with_nothing_usable_says_which_file_where_and_why(
    desk: Desk, data: bytes, name: str, parts: list[str] | None
) -> None:
    made = desk.upload(data, name)
    if parts is None:
        assert made.file_format == "text"  # a name that says text is text, whatever it looks like
        return
    assert made.state == "failed"
    assert made.accepted == 0
    for part in parts:
        assert part in made.message
    assert ".." not in made.message


def test_broken_first_line_does_not_stop_the_lines_after_it(desk: Desk) -> None:
    good = b'\n{"prompt":"good"}\n'
    for broken, code in ((b"{", "not_json"), (b"[" * 200_000, "nested_too_deep"), (b'{"prompt":"a"', "not_json")):
        made = desk.upload(broken + good)
        assert desk.codes(made) == [(1, "error", code)]
        assert made.accepted == 1


def test_line_that_is_a_list_does_not_stop_the_lines_after_it(desk: Desk) -> None:
    made = desk.upload(b'[1,2]\n{"prompt":"good"}\n')
    assert desk.codes(made) == [(1, "error", "row_not_object")]
    assert made.accepted == 1


def test_json_name_may_hold_lines_or_an_array(desk: Desk) -> None:
    lines = desk.upload(b'{"prompt":"a"}\n{"prompt":"b"}\n', "data.json")
    array = desk.upload(b' [ {"prompt":"a"} , {"prompt":"b"} ] ', "data.json")
    assert (lines.file_format, array.file_format) == ("jsonl", "json")
    assert desk.messages(lines) == desk.messages(array)
    assert [prompt.line for prompt, _ in desk.stored(array)] == [1, 2]


def test_bad_item_of_an_array_does_not_stop_the_others(desk: Desk) -> None:
    data = b'[{"prompt":"a"}, {"prompt":NaN}, {"prompt" "b"}, , 5, "bare", {"prompt":"]},{\\"", "n":[[]]}, {"prompt":"z"},]'
    made = desk.upload(data, "rows.json")
    assert [m[0]["content"] for m in desk.messages(made)] == ["a", "bare", ']},{"', "z"]
    assert [(line, code) for line, _, code in desk.codes(made)] == [
        (2, "number_not_json"), (3, "not_json"), (4, "not_json"), (5, "row_not_object"), (9, "not_json"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data", [b'[{"prompt":"a"},{"prompt":"b', b'[{"prompt":"a"}', b'[{"prompt":"a"}] [1]', b'[{"prompt":"a"},']
)
def test_array_that_breaks_off_keeps_what_came_before_and_says_so(desk: Desk, data: bytes) -> None:
    made = desk.upload(data, "rows.json")
    assert (made.state, made.accepted, made.rejected) == ("ready", 1, 1)
    assert made.errors[0].code == "file_broken"
    assert "breaks off" in made.message


@pytest.mark.parametrize("seed", range(30))
def test_array_is_cut_at_the_same_places_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(json_array, "_CHUNK", rng.randint(1, 7))
    alphabet = 'a"\\[]{},: \n😀'

    def value(depth: int = 0) -> object:
        kind = rng.randrange(4 if depth < 3 else 2)
        if kind == 0:
            return "".join(rng.choices(alphabet, k=rng.randrange(6)))
        if kind == 1:
            return rng.choice([1, -2.5, True, None])
        items = [value(depth + 1) for _ in range(rng.randrange(3))]
        return (
            items if kind == 2 else {"".join(rng.choices(alphabet, k=2)) + str(i): item for i, item in enumerate(items)}
        )

    wanted = [value() for _ in range(rng.randrange(8))]
    text = json.dumps(wanted, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
    rows = list(json_array.read(io.BufferedReader(io.BytesIO(text.encode())), JsonReader()))
    assert [row.value for row in rows if isinstance(row, RawRow)] == wanted


def test_row_beyond_the_bound_is_refused_without_being_held(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("text_lines", "json_array"):
        monkeypatch.setattr(f"inference.prompts.formats.{module}.MAX_ROW_BYTES", 1000)
    big = b'{"prompt":"' + b"x" * 300_000 + b'"}'
    made = desk.upload(b"\n".join([b'{"prompt":"a"}', big, b'{"prompt":"b"}']))
    assert desk.codes(made) == [(2, "error", "row_too_long")]
    made = desk.upload(b"[" + b",".join([b'{"prompt":"a"}', big, b'{"prompt":"b"}']) + b"]", "x.json")
    assert desk.codes(made) == [(2, "error", "row_too_long")]
    assert made.accepted == 2


def test_csv_with_quoted_line_ends_bad_records_and_structure_in_cells(desk: Desk) -> None:
    tools = json.dumps([{"name": "f"}]).replace('"', '""')
    data = f'id,prompt,category,tools\r\n1,"two\r\nlines, ""quoted""",x,\r\n2,short\r\n3,"unclosed" junk,x,\r\n4,last,,"{tools}"\r\n'
    made = desk.upload(data.encode(), "rows.csv")
    assert [(prompt.line, prompt.source_id, prompt.category) for prompt, _ in desk.stored(made)] == [
        (2, "1", "x"),
        (6, "4", ""),
    ]
    assert desk.messages(made)[0][0]["content"] == 'two\r\nlines, "quoted"'
    assert desk.codes(made)[:2] == [(4, "error", "csv_cells"), (5, "error", "csv_broken")]
    assert json.loads(desk.stored(made)[1][1].tools) == [{"type": "function", "function": {"name": "f"}}]


def test_csv_cells_longer_than_the_modules_own_limit_are_read(desk: Desk) -> None:
    made = desk.upload(b"prompt\n" + b"x" * 500_000 + b"\n", "rows.csv")
    assert len(desk.messages(made)[0][0]["content"]) == 500_000


def test_csv_in_another_encoding_or_with_another_mark(desk: Desk) -> None:
    made = desk.upload("id;prompt\n1;caf\u00e9\n2;b\n".encode("latin-1"), "rows.csv")
    assert desk.codes(made) == [(2, "error", "not_utf8")]
    assert ids(desk, made) == ["2"]
    with pytest.raises(Invalid, match="UTF-16"):
        desk.upload("id,prompt\n1,a\n".encode("utf-16"), "rows.csv")


def test_bytes_that_are_not_utf8_are_named_with_their_place(desk: Desk) -> None:
    made = desk.upload(b'{"prompt":"caf\xe9"}\n{"prompt":"b"}\n')
    assert desk.codes(made) == [(1, "error", "not_utf8")]
    assert "byte 15 is 0xe9" in made.errors[0].message


def test_plain_text_is_one_prompt_a_line(desk: Desk) -> None:
    made = desk.upload(b"What is 2+2?\r\n\r\n  Wer? \n", "questions.txt")
    assert [m[0]["content"] for m in desk.messages(made)] == ["What is 2+2?", "  Wer? "]


def parquet(rows: list[dict[str, object]], **more: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, **more)
    return sink.getvalue()


def test_parquet_gives_plain_values_without_arrows_nulls(any_desk: Desk) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    rows = [
        {"id": 7, "category": "a", "messages": [{"role": "user", "content": "hi", "tool_calls": None}]},
        {
            "id": 8,
            "category": "b",
            "messages": [
                {"role": "user", "content": "go", "tool_calls": None},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "42", "tool_calls": None},
            ],
        },
    ]
    made = any_desk.upload(parquet(rows), "")
    assert (made.state, made.file_format, made.accepted) == ("ready", "parquet", 2)
    assert any_desk.messages(made) == [
        [{"role": "user", "content": "hi"}],
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "42"},
        ],
    ]
    assert made.categories == {"a": 1, "b": 1}


def test_parquet_of_many_row_groups_keeps_row_numbers(desk: Desk) -> None:
    rows = [{"prompt": f"p{n}" if n != 700 else None} for n in range(1500)]
    made = desk.upload(parquet(rows, row_group_size=400), "x.parquet")
    assert (made.accepted, made.rejected) == (1499, 1)
    assert made.errors[0].line == 701


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, lambda d: gzip.compress(zstandard.compress(d))])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_packed_uploads_are_unpacked_by_magic_and_kept_as_sent(desk: Desk, pack, kind: str) -> None:
    plain = b'{"prompt":"a"}\n{"prompt":"b"}\n' if kind == "jsonl" else parquet([{"prompt": "a"}, {"prompt": "b"}])
    data = pack(plain)
    made = desk.upload(
        data, "", content_encoding=None, content_type="application/x-ndjson" if kind == "jsonl" else None
    )
    assert made.accepted == 2
    assert made.file_format.startswith(kind + "+")
    folder = desk.ctx.settings.data_dir / "uploads" / str(made.id)
    assert [path.read_bytes() for path in folder.iterdir()] == [data]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_upload_that_is_cut_short_says_so(desk: Desk, pack) -> None:
    rng = random.Random(1)
    lines = b"\n".join(json.dumps({"prompt": f"{rng.random()} {rng.random()}"}).encode() for _ in range(40_000))
    packed = pack(lines)
    made = desk.upload(packed[: len(packed) * 2 // 3], "rows.jsonl.gz")
    assert 0 < made.accepted < 40_000
    assert "cut short" in made.message
    assert made.errors[0].code == "file_broken"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_decompression_bomb_stops_at_the_limit_and_leaves_nothing(settings, desk: Desk, pack) -> None:
    small = Desk(
        desk.ctx.__class__(
            settings.model_copy(update={"max_upload_mb": 1}), desk.ctx.db, desk.ctx.ids, desk.ctx.tokenizers
        )
    )
    bomb = pack(b'{"prompt":"a"}\n' * 2_000 + b" " * 50_000_000)
    assert len(bomb) < 2**20
    with pytest.raises(TooLarge, match="larger than 1 MiB") as caught:
        small.upload(bomb, "rows.jsonl.gz")
    assert caught.value.code == "unpacked_too_large"
    nothing_left(small)


def nothing_left(desk: Desk) -> None:
    from inference.prompts.service import list_prompt_sets

    with desk.ctx.db.read() as s:
        assert list_prompt_sets(s).items == []
    uploads = desk.ctx.settings.data_dir / "uploads"
    assert not uploads.exists() or list(uploads.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "name", "content_type", "what"),
    [
        (b"PK\x03\x04....", "sheet.xlsx", None, "ZIP"),
        (b"%PDF-1.7", "paper.pdf", "application/pdf", "PDF"),
        (b"hello there", "", "application/octet-stream", "does not say"),
    ],
)
def test_file_that_nothing_here_reads_is_refused_whole(
    desk: Desk, data: bytes, name: str, content_type: str | None, what: str
) -> None:
    with pytest.raises(Invalid, match=what) as caught:
        desk.upload(data, name, content_type=content_type)
    assert caught.value.code == "upload_format_unknown"
    nothing_left(desk)


def test_content_type_alone_is_enough(desk: Desk) -> None:
    for content_type, data, kind in [
        ("application/x-ndjson", b'{"prompt":"a"}', "jsonl"),
        ("application/json; charset=utf-8", b'[{"prompt":"a"}]', "json"),
        ("text/csv", b"prompt\na\n", "csv"),
        ("application/vnd.apache.parquet", parquet([{"prompt": "a"}]), "parquet"),
        ("text/plain", b"a\n", "text"),
        ("text/tab-separated-values", b"id\tprompt\n1\ta,b\n", "tsv"),
    ]:
        made = desk.upload(data, "", content_type=content_type)
        assert (made.file_format, made.accepted) == (kind, 1)


def test_unknown_content_encoding_is_refused(desk: Desk) -> None:
    with pytest.raises(Invalid, match="Content-Encoding br"):
        desk.upload(b"x", content_encoding="br")


def test_broken_reader_is_told_apart_from_a_bad_row() -> None:
    with pytest.raises(FileBroken):
        list(json_array.read(io.BufferedReader(io.BytesIO(b'{"a":1}')), JsonReader()))
    assert isinstance(next(json_array.read(io.BufferedReader(io.BytesIO(b"[nope]")), JsonReader())), RefusedRow)


@pytest.mark.parametrize("nested", [False, True])
def test_parquet_bomb_of_one_value_in_every_row_stops_at_the_limit(settings, desk: Desk, nested: bool) -> None:
    small = Desk(
        desk.ctx.__class__(
            settings.model_copy(update={"max_upload_mb": 16}), desk.ctx.db, desk.ctx.ids, desk.ctx.tokenizers
        )
    )
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 20, pa.int32()), pa.array(["a" * 2**20]))
    if nested:
        column = pa.StructArray.from_arrays([column], ["inner"])
    sink = io.BytesIO()
    pq.write_table(pa.table({"prompt": column}), sink, compression="zstd", dictionary_pagesize_limit=2**30)
    assert sink.tell() < 16_384
    with pytest.raises(TooLarge) as error:
        small.upload(sink.getvalue(), "bomb.parquet")
    assert error.value.code == "unpacked_too_large"
    nothing_left(small)


def test_parquet_of_dictionaries_is_read_like_any_other(desk: Desk) -> None:
    prompts = pa.array(["one", "two", "one"]).dictionary_encode()
    sink = io.BytesIO()
    pq.write_table(pa.table({"prompt": prompts, "category": pa.array(["a", "b", "a"]).dictionary_encode()}), sink)
    made = desk.upload(sink.getvalue(), "rows.parquet")
    assert (made.accepted, made.categories) == (3, {"a": 2, "b": 1})
