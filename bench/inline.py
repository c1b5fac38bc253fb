"""What one sample costs inside: cutting, the checks of ids, the checks of text; and whether cutting stays linear.

    python -m bench.inline [--tokens 2000]

The answers are this repository's own prose on a real tokenizer (Qwen3's, fetched as the tests fetch it), half of it as a thought.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from bench.measure import ROOT
from inference.quality.answer import Answer
from inference.quality.checks.check import run_checks
from inference.quality.checks.registry import ID_CHECKS
from inference.quality.flags import OFF_BY_DEFAULT
from inference.quality.inspection import inspect, inspect_text
from inference.tokens.formats import bind, get_format
from inference.tokens.ids import Ids
from tests.support.families import Family, make_families
from tests.support.tokenizers import real_tokenizer

REPEATS = 300
VARIANTS = 8
SHORT, LONG = 10_000, 100_000
PLAIN_TOKENS = 1_000_000


def prose(tokens: int) -> tuple[Family, list[Ids]]:
    """Qwen3 on its own tokenizer, and answers of `tokens` ids."""
    tokenizer = real_tokenizer("qwen3")
    family = Family(
        bind(get_format("qwen3"), tokenizer), tokenizer, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    texts = [path.read_text() for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])]
    ids = tokenizer.encode("\n".join(line for text in texts for line in text.splitlines() if "<" not in line))
    ids *= tokens * 2 // len(ids) + 2
    marks = family.bound.ids
    half, step = tokens // 2, len(ids) // 2 // VARIANTS
    made = []
    for start in range(0, VARIANTS * step, step):
        text = ids[start : start + tokens - 3]
        whole = [marks["<think>"], *text[:half], marks["</think>"], *text[half:], marks["<|im_end|>"]]
        made.append(np.array(whole, dtype=np.uint32))
    return family, made


def milliseconds(work: Callable[[int], object], repeats: int = REPEATS) -> float:
    """The median of `work(turn)`."""
    times = []
    for turn in range(repeats):
        started = time.perf_counter()
        work(turn)
        times.append(time.perf_counter() - started)
    return median(times) * 1000


def per_sample(tokens: int) -> dict[str, float]:
    """Milliseconds a sample: `cut`, `id checks`, `inspect` (both, and the preview), `text checks`."""
    family, made = prose(tokens)
    bound, tokenizer = family.bound, family.tokenizer
    prompt = np.array(family.prompt_ids(), dtype=np.uint32)
    cuts = [bound.segment(prompt, ids) for ids in made]
    stops = bound.stop_ids
    answers = [
        Answer(
            bound, tokenizer, ids, cut, finish_reason="stop", finish_matched=int(ids[-1]), tools=None, stop_ids=stops
        )
        for ids, cut in zip(made, cuts, strict=True)
    ]
    question = "What is this about, and how is it used?"
    return {
        "cut": milliseconds(lambda turn: bound.segment(prompt, made[turn % VARIANTS])),
        "id checks": milliseconds(lambda turn: run_checks(ID_CHECKS, answers[turn % VARIANTS], OFF_BY_DEFAULT)),
        "inspect": milliseconds(
            lambda turn: inspect(bound, tokenizer, prompt, made[turn % VARIANTS], "stop", int(made[0][-1]))
        ),
        "text checks": milliseconds(
            lambda turn: inspect_text(bound, tokenizer, question, made[turn % VARIANTS], cuts[turn % VARIANTS])
        ),
    }


def long_answer_rate(tokens: int = PLAIN_TOKENS) -> float:
    """Ids cut a second, in one long answer."""
    family, (ids, *_) = prose(tokens)
    prompt = np.array(family.prompt_ids(), dtype=np.uint32)
    return tokens / milliseconds(lambda _: family.bound.segment(prompt, ids), 20) * 1000


def _growth_of(family: Family) -> float:
    bound = family.bound
    spelled = [number for numbers in bound.spelled.values() for number in numbers]
    delimiters = sorted({*bound.ids.values(), *spelled} - bound.stop_ids)
    prompt = np.array(family.prompt_ids(), dtype=np.uint32)

    def shortest(size: int) -> float:
        ids = np.random.default_rng(1).choice(np.array([*delimiters, 198, 220], dtype=np.uint32), size)
        return min(milliseconds(lambda _: bound.segment(prompt, ids), 1) for _ in range(7))

    return shortest(LONG) / shortest(SHORT)


def growth() -> list[tuple[float, str]]:
    """t(100,000) / t(10,000) of cutting ids that are mostly delimiters, for each family; the worst first."""
    with tempfile.TemporaryDirectory(prefix="draftmill-bench-") as folder:
        found = [(_growth_of(family), name) for name, family in make_families(Path(folder)).items()]
    return sorted(found, reverse=True)


def report(tokens: int) -> None:
    """Measure and print."""
    print(f"| per sample of {tokens:,} ids, one core | ms |\n|---|---|")
    cost = per_sample(tokens)
    for name, value in cost.items():
        print(f"| {name} | {value:.3f} |", flush=True)
    print(
        f"\ncutting: {tokens / cost['cut'] / 1000:.0f}M ids/s in such samples, {long_answer_rate() / 1e6:.0f}M in one of a million"
    )
    worst = growth()
    (high, name), (low, other) = worst[0], worst[-1]
    print(f"ids that are mostly delimiters, t(100,000)/t(10,000): {low:.1f} ({other}) to {high:.1f} ({name})")


def main() -> None:
    """As a program of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    report(parser.parse_args().tokens)


if __name__ == "__main__":
    main()
