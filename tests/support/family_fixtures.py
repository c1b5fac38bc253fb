"""The families on made-up vocabularies that carry the families' own ids."""

import pytest

from tests.support.families import Family, make_families


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    """Each family of this round, bound to a tokenizer of its own."""
    return make_families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="session")
def qwen3(families: dict[str, Family]) -> Family:
    return families["qwen3"]


@pytest.fixture(scope="session")
def kimi(families: dict[str, Family]) -> Family:
    return families["kimi_k2"]


@pytest.fixture(scope="session")
def deepseek(families: dict[str, Family]) -> Family:
    return families["deepseek_r1"]
