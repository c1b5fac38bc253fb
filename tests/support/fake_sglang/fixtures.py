"""Pytest fixtures for the fake; registered as a plugin by `tests/conftest.py`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.fake_sglang.server import FakeSglang


@pytest.fixture
def fake_sglang() -> Iterator[FakeSglang]:
    """One running fake server with the recorded answer; turn `facts`, `knobs` and `script` as the test goes."""
    with FakeSglang() as server:
        yield server
        assert server.crashes == []


@pytest.fixture
def start_fake_sglang() -> Iterator[Callable[..., FakeSglang]]:
    """Starts as many fakes as asked, with FakeSglang's arguments; all stop after the test."""
    with ExitStack() as stack:

        def start(**arguments: Any) -> FakeSglang:
            return stack.enter_context(FakeSglang(**arguments))

        yield start
