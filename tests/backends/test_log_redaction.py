"""No key is in any view of a log: by its name, by its shape, or as the one that is known, wherever a reading begins or ends."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.backends.logs.capping import cap
from inference.backends.logs.folding import Wanted
from inference.backends.logs.reading import first_position, last_lines, read_back, read_on, whole
from inference.backends.logs.redaction import redact

KEY = "d41d8cd98f00b204e9800998ecf8427e"
FORMER = "0f1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778"
"""As Draftmill makes them; nobody knows it any more"""
CURRENT = "a7c3e1f5b2d8064e9b1c7f3a5d2e8406b9c1f7a3e5d20864"
OTHER = "sEcr3t.With-odd_~chars+/=="


@pytest.mark.parametrize(
    "line",
    [
        f"server_args={{'model_path': '/m', 'api_key': '{KEY}', 'admin_api_key': None}}",
        f"server_args=ServerArgs(model_path='/m', api_key='{KEY}')",
        f'{{"api_key": "{KEY}", "admin_api_key": "{KEY}"}}',
        json.dumps(json.dumps({"api_key": KEY})),
        f"python -m sglang.launch_server --api-key {KEY} --port 1",
        f"python -m sglang.launch_server --api-key={KEY}",
        f"python -m sglang.launch_server --api-key '{KEY}'",
        f"['--admin-api-key', '{KEY}']",
        f'["--api-key","{KEY}"]',
        f"Authorization: Bearer {KEY}",
        f"(b'authorization', b'Bearer {KEY}')",
        f"'Authorization': 'Basic {KEY}'",
        f"authorization={KEY}",
        f'api-key: "{KEY}"',
        f"API_KEY={KEY}",
        f"X-API-Key: {KEY}",
        f"HF_TOKEN={KEY}",
        f"'ssl_keyfile_password': '{KEY}'",
        f"AWS_SECRET_ACCESS_KEY={KEY}",
        f"https://user:{KEY}@example.org/x",
        f"https://{KEY}@example.org/x",
        "token hf_" + KEY.upper(),
        "key sk-" + KEY,
    ],
)
def test_what_looks_like_a_key_is_masked_known_or_not(line: str) -> None:
    assert KEY.lower() not in redact(line).lower()
    assert "***" in redact(line)


def test_a_quoted_key_is_masked_to_its_last_letter_whatever_is_in_it() -> None:
    for key in ("two words", r"with \' quote", "a,b}c)", "x=y", "None-such"):
        for line in (f"api_key='{key}', x=1", f"--api-key '{key}' --port 1"):
            shown = redact(line)
            assert not any(word in shown for word in key.replace("\\'", " ").split()), shown
    assert redact("api_key='two words', x=1") == "api_key='***', x=1"


def test_a_known_key_is_masked_wherever_it_stands_and_nothing_else_is() -> None:
    assert redact(f"http://x/?q={KEY}&b=1", (KEY,)) == "http://x/?q=***&b=1"
    plain = (
        "'api_key': None, 'admin_api_key': None, 'key': 1, 'api_key': '', max_total_num_tokens=40000, tokenizer_path='/m', "
        "#new-token: 1, input throughput (token/s): 3.07, tcp://127.0.0.1:5557, 0123456789abcdef, "
        "https://huggingface.co/x/discussions/84#69121093e8b480e709447d5e"
    )
    assert redact(plain) == plain


def test_the_key_of_a_former_start_is_known_by_its_shape() -> None:
    assert redact(f"somebody printed {FORMER} here") == "somebody printed *** here"
    assert redact(f"weights {FORMER}00 of another length") == f"weights {FORMER}00 of another length"


def test_what_may_be_the_beginning_of_a_key_is_masked_while_a_line_is_unfinished() -> None:
    for length in range(8, len(CURRENT) + 1):
        assert CURRENT[:length] not in redact(f"q={CURRENT[:length]}", (CURRENT,), unfinished=True)
        assert FORMER[:length] not in redact(f"q={FORMER[:length]}", unfinished=True)
    assert redact("loading: 50%| 1/2 [00:04<00:08, 1.2it/s]", (CURRENT,), unfinished=True).endswith("1.2it/s]")


@pytest.mark.parametrize(
    "line", ["y" * 400_000, "passw" * 50_000, "api_key='" * 30_000, "a" * 200_000 + "://" * 20_000]
)
def test_an_odd_line_costs_no_more_than_its_length(line: str) -> None:
    """Were it the square of it, this would never end."""
    assert redact(f"{line} bearer api secret passw hf_") is not None


SECRETS = (FORMER, CURRENT, OTHER)
SPEAKING = (
    f"[2026-11-30 07:03:04] server_args={{'model_path': '/m', 'api_key': '{FORMER}', 'x': '{'long ' * 900}', 'api_key': '{OTHER}'}}",
    f"[2026-11-30 07:03:05] python -m sglang.launch_server --api-key {OTHER} --port 30000",
    f"[2026-11-30 07:03:05] headers: {{'authorization': 'Bearer {OTHER}'}}",
    f"[2026-11-30 07:03:06] GET http://127.0.0.1:30000/x?q={CURRENT}&again={FORMER}",
    f"{'x' * 3990} {CURRENT}",
    f"{'x' * 3970} api_key={OTHER} and more",
    f"\x1b[31mapi_key\x1b[0m=\x1b[1m'{OTHER}'\x1b[0m",
    f"loading {CURRENT}:   0%\rloading {FORMER}: 100%",
)
PLAIN = (
    "[2026-11-30 07:03:24] Decode batch, #running-req: 1, #token: 47",
    "Traceback (most recent call last):",
    "",
    "漢字 🍂",
)


def pieces_of(secret: str) -> set[str]:
    """Every stretch of eight letters: less could be anybody's."""
    return {secret[at : at + 8] for at in range(len(secret) - 7)}


PIECES = set().union(*map(pieces_of, SECRETS))


def leaks(text: str) -> list[str]:
    return [text[at : at + 8] for at in range(len(text) - 7) if text[at : at + 8] in PIECES]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(st.sampled_from(SPEAKING), st.sampled_from(PLAIN)), min_size=1, max_size=12),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_no_view_shows_a_piece_of_a_key_wherever_the_log_is_cut(
    tmp_path: Path, lines: list[str], finished: bool, chance: random.Random
) -> None:
    path = tmp_path / "log"
    raw = ("\n".join(lines) + ("\n" if finished else "")).encode()
    raw = raw if finished else raw[: chance.randint(0, len(raw))]
    path.write_bytes(raw)
    for _ in range(6):
        cut = chance.randint(0, len(raw) + 2)
        found = read_on(path, cut, (CURRENT,), limit=chance.choice((1, 64, 5000, 10**6)))
        shown = [line.text for line in found.lines] + [found.unfinished]
        shown += [line.text for line in read_back(path, 50, (CURRENT,), before=found.position).lines]
        shown += [line.text for line in read_back(path, chance.randint(1, 9), (CURRENT,), Wanted("api"), cut).lines]
        assert not leaks("\n".join(shown))
    assert not leaks("".join(whole(path, (CURRENT,))))
    assert not leaks("\n".join(last_lines(path, 20, (CURRENT,))))
    begin = first_position(path, chance.randint(0, len(raw)))
    assert begin == 0 or begin >= len(raw) or raw[begin - 1 : begin] == b"\n" or b"\n" not in raw[begin:]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1_200_000), st.integers(1, 600_000), st.booleans())
def test_no_view_shows_a_piece_of_a_key_where_a_hole_cuts_its_line(
    tmp_path: Path, begin: int, length: int, zeros: bool
) -> None:
    """Holes of ours end at lines; those of others, and of a read while one is made, need not."""
    path = tmp_path / "log"
    line = "".join(f"{text}\n" for text in SPEAKING).encode()
    raw = bytearray(line * (1_500_000 // len(line)))
    raw[begin : begin + length] = bytes(len(raw[begin : begin + length]))
    with path.open("wb") as file:
        if zeros:
            file.write(raw)
        else:
            file.write(raw[:begin])
            file.seek(begin + length)
            file.write(raw[begin + length :])
    for offset in (begin - 1, begin, begin + length - 1, begin + length, begin + length + 3):
        found = read_on(path, max(0, offset), (CURRENT,))
        older = read_back(path, 30, (CURRENT,), before=max(0, offset))
        assert not leaks("\n".join([line.text for line in found.lines + older.lines] + [found.unfinished]))


def test_a_search_tells_nothing_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(f"api_key='{OTHER}'\nq={CURRENT}\nplain\n")
    for q in (OTHER, OTHER[:5], CURRENT[:6], "api_key='s"):
        assert read_back(path, 9, (CURRENT,), Wanted(q)).lines == []
    assert len(read_back(path, 9, (CURRENT,), Wanted("***")).lines) == 2


def test_a_capped_log_shows_no_piece_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = "".join(f"{text}\n" for text in SPEAKING).encode()
    with path.open("ab") as file:
        for _ in range(5):
            file.write(line * (1_500_000 // len(line)))
            file.flush()
            cap(path, 2 * 1024 * 1024)
    assert not leaks("".join(whole(path, (CURRENT,))))
    shown = read_back(path, 10_000, (CURRENT,)).lines
    assert any(line.note == "left out" for line in shown)
    assert not leaks("\n".join(line.text for line in shown))
