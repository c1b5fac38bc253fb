"""Tokenizers by chat template, one for each, made once."""

import itertools

import pytest

from inference.tokens.cache import TokenizerCache
from inference.tokens.tokenizer import Tokenizer
from tests.support import tiny_tokenizers as tiny
from tests.tokens.rendering import Make


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A tokenizer with this chat template; further arguments as of `make_tokenizer`."""
    folder = tmp_path_factory.mktemp("templates")
    cache = TokenizerCache([folder], allow_remote_code=False)
    known: dict[str | None, Tokenizer] = {}
    numbers = itertools.count()

    def one(template: str | None, **more) -> Tokenizer:
        if more or template not in known:
            made = cache.get(str(tiny.make_tokenizer(folder / str(next(numbers)), template=template, **more)))
            return made if more else known.setdefault(template, made)
        return known[template]

    return one
