"""Which file format an upload is in: by its magic number, then by what the sender said, then by its name, then by its look.

A name is trusted over `application/json` and `text/plain`, which tools put on anything; a type they do not know
(`application/octet-stream`) says nothing.
"""

from pathlib import PurePath

from db.errors import Invalid

JSONL, JSON_ARRAY, CSV, TSV, PARQUET, TEXT = "jsonl", "json", "csv", "tsv", "parquet", "text"

BOM = b"\xef\xbb\xbf"
PACKED_SUFFIXES = {".gz", ".gzip", ".zst", ".zstd"}
SUFFIXES = {
    ".jsonl": JSONL, ".ndjson": JSONL, ".jsonlines": JSONL, ".json": JSON_ARRAY, ".csv": CSV, ".tsv": TSV,
    ".parquet": PARQUET, ".pq": PARQUET, ".txt": TEXT,
}  # fmt: skip
CONTENT_TYPES = {
    "application/x-ndjson": JSONL, "application/ndjson": JSONL, "application/jsonl": JSONL, "application/x-jsonl": JSONL,
    "application/jsonlines": JSONL, "application/x-jsonlines": JSONL, "application/json": JSON_ARRAY, "text/json": JSON_ARRAY,
    "text/csv": CSV, "application/csv": CSV, "text/tab-separated-values": TSV, "application/vnd.apache.parquet": PARQUET,
    "application/x-parquet": PARQUET, "application/parquet": PARQUET, "text/plain": TEXT,
}  # fmt: skip
_VAGUE = {"application/json", "text/json", "text/plain"}
_FOREIGN = {
    b"PK\x03\x04": "a ZIP archive (or a spreadsheet)",
    b"%PDF": "a PDF",
    b"\x89PNG": "an image",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ": "xz data",
    b"ARROW1": "an Arrow IPC file",
    b"SQLite format 3": "an SQLite database",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def suffixes_of(file_name: str) -> tuple[str | None, str | None]:
    """The known (format, compression) suffixes of a name, lower case: `rows.jsonl.gz` gives (`.jsonl`, `.gz`)."""
    path = PurePath(file_name.lower())
    packed = path.suffix if path.suffix in PACKED_SUFFIXES else None
    suffix = path.with_suffix("").suffix if packed else path.suffix
    return (suffix if suffix in SUFFIXES else None), packed


def format_of(head: bytes, *, content_type: str | None, file_name: str) -> str:
    """The format of a file that begins (unpacked) with `head`.

    Raises:
        Invalid: the file is something that no reader here reads, or nothing says what it is.
    """
    if head.startswith(b"PAR1"):
        return PARQUET
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise Invalid("upload_format_unknown", _sentence(file_name, f"is {what}"), field="file")
    told = (content_type or "").split(";")[0].strip().lower()
    suffix, _ = suffixes_of(file_name)
    by_type, by_name = CONTENT_TYPES.get(told), SUFFIXES.get(suffix or "")
    found = (by_name or by_type) if told in _VAGUE else (by_type or by_name)
    text = head.removeprefix(BOM).lstrip()
    if found == JSON_ARRAY or (found is None and text[:1] in {b"[", b"{"}):
        return JSONL if text[:1] == b"{" else JSON_ARRAY  # many a `.json` holds one object a line
    if found is None and text:
        raise Invalid("upload_format_unknown", _sentence(file_name, "does not say what it is"), field="file")
    return found or JSONL


def _sentence(file_name: str, what: str) -> str:
    return (
        f"{file_name or 'The upload'} {what}: send JSON Lines (.jsonl), a JSON array (.json), CSV (.csv), Parquet (.parquet) or one "
        "prompt a line (.txt) in UTF-8, plain or packed with gzip or zstd, with a file name or a Content-Type that says which."
    )
