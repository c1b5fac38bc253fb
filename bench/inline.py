"""What one sample costs inside: segmentation with the id checks, and the page's token strip."""

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from bench.null_engine import answers
from inference.quality.inspection import inspect
from inference.tokens.cache import TokenizerCache
from inference.tokens.formats import bind, get_format
from tests.support.tiny_tokenizers import make_tokenizer

REPEATS = 200


def inspection_ms(tokens: int) -> float:
    """Median milliseconds of `inspect` over answers of `tokens` ids, repeated."""
    with tempfile.TemporaryDirectory(prefix="draftmill-bench-") as folder:
        model = make_tokenizer(Path(folder) / "null", config={"vocab_size": 151_936})
        tokenizer = TokenizerCache([Path(folder)], allow_remote_code=False).get(str(model))
        bound = bind(get_format("qwen3"), tokenizer)
        prompt = np.arange(100, 140, dtype=np.uint32)
        made = [np.array(ids, dtype=np.uint32) for ids in answers(tokens)]
        times = []
        for turn in range(REPEATS):
            ids = made[turn % len(made)]
            started = time.perf_counter()
            inspect(bound, tokenizer, prompt, ids, "stop", 151_645, stop_ids=tokenizer.stop_ids)
            times.append(time.perf_counter() - started)
        return median(times) * 1000
