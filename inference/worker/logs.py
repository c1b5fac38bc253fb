"""The worker's own log: one JSON object a line on standard error, without secrets."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

_SECRET: Final = ("key", "token", "secret", "password", "authorization", "url")
_HARMLESS: Final = frozenset({"tokens", "prompt_tokens", "completion_tokens", "tokens_per_s", "tokenizer", "key_id"})


def configure_logs() -> None:
    """Send structlog and the standard library's warnings to standard error as JSON lines."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _mask,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")


def _mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in event:
        if name not in _HARMLESS and any(part in name.lower() for part in _SECRET):
            event[name] = "***"
    return event
