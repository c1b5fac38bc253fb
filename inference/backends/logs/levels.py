"""How grave a line is. SGLang prints no level names (its own lines are `[time] message`), so it is told from what they say.

Uvicorn's lines do have one. A traceback is an error to its end. Lines of health checks (their own one-token prefill, their
access lines) are noted as such, so that nobody takes them for traffic.
"""

import re

from inference.backends.logs.batchlines import is_health_check
from inference.backends.logs.diagnosis import search

ERROR, WARNING, INFO = "error", "warning", "info"
LEVELS = (INFO, WARNING, ERROR)
RANK = {name: rank for rank, name in enumerate(LEVELS)}

HEALTH_CHECK = "health check"
FIGURES = "figures"
LEFT_OUT = "left out"

HINTS = (
    b"rror", b"ERROR", b"xception", b"raceback", b"Interrupt", b"arning", b"WARN", b"CRITICAL", b"crashed with", b"atchdog", b"IGQUIT",
    b"igquit", b"ailed", b"emory", b"eprecat", b"etract", b"died during", b"No space", b"in use", b'" 4', b'" 5',
    b"unbalanced", b"incorrect regex", b"leaked", b"core dumped", b"egmentation", b"fatal",
)  # fmt: skip
"""A stretch of log without any of these holds neither a warning nor an error."""

_TIMED = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\]]*\] ?")
_NAMED = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):\s")
_NAMES = {"DEBUG": INFO, "INFO": INFO, "WARNING": WARNING, "ERROR": ERROR, "CRITICAL": ERROR}
_ACCESS = re.compile(r'INFO:\s+\S+ - "([A-Z]+) (\S+) HTTP/[\d.]+" (\d{3})')
_HARMLESS = re.compile(
    r"Ignore import error|/v1/responses\) disabled|server_args=|Engine startup timings|remaining_rids="
    r"|No live scheduler processes found|(?:Prefill|Decode) batch\b|before crash diagnostics"
)
"""Lines that speak of errors in every good start and end, or hold a client's words."""
_ERROR = re.compile(
    r"Traceback \(most recent call last\)|hit an exception|crashed with exit code|[Ww]atchdog timeout|SIGQUIT received"
    r"|Received sigquit|out of memory|Not enough memory|CUDA error|NCCL error|Initialization failed|scheduler died"
    r"|Capture cuda graph failed|No space left on device|address already in use|Port is already in use|core dumped"
    r"|Segmentation fault|Fatal Python error|^\S[^:]*: error: |^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)(?:: |$)"
    r"|During handling of the above exception|direct cause of the following exception|nvcc fatal|fatal error: "
)
_WARNING = re.compile(
    r"\b\w*Warning\b|\bWARN(?:ING)?\b|warnings\.warn|\bwarning:|is deprecated|deprecated[,. ]|Retract requests|Health check failed"
    r"|is unbalanced|\[http_server\] Error:|incorrect regex pattern|leaked \w+ objects"
)
_TRACE = re.compile(r"Traceback \(most recent call last\)")
_GENERIC = re.compile(r"\b(?:ERROR|Error|error|Failed|failed)\b|\w(?:Error|Exception)\b")
_PREFILL = re.compile(r"(?:Prefill|Decode) batch\b")
_CHECK_PATHS = frozenset({"/health", "/health_generate", "/ready", "/ping"})
_FIGURE_PATHS = frozenset({"/v1/loads", "/metrics", "/metrics/", "/get_load"})
_SERVER_FAULT, _CLIENT_FAULT = 500, 400
_BACK_PRESSURE = 503


class Levels:
    """Reads the lines of one log in order and says of each how grave it is and what it is of."""

    def __init__(self) -> None:
        self._in_trace = False
        self._checked = False
        """The last batch was a health check's, and its access line has not come yet."""

    def feed(self, text: str) -> tuple[str, str]:
        """Level and note of the next line, cleaned; the note is empty for most."""
        timed = _TIMED.match(text)
        if timed is None:
            return self._untimed(text), ""
        self._in_trace = False
        said = text[timed.end() :]
        if (access := _ACCESS.match(said)) is not None:
            return self._access(*access.groups())
        if _PREFILL.match(said) is not None:
            self._checked = is_health_check(said)
            return INFO, HEALTH_CHECK if self._checked else ""
        named = _NAMED.match(said)
        level = _NAMES[named[1]] if named is not None else _said(said)
        self._in_trace = level == ERROR and _TRACE.search(said) is not None
        return level, ""

    def _untimed(self, text: str) -> str:
        if self._in_trace:  # to its last line, and past the blank one before a chained exception
            self._in_trace = bool(text.strip())
            return ERROR
        level = _said(text)
        self._in_trace = level == ERROR and bool(text.strip())
        return level

    def _access(self, method: str, path: str, status: str) -> tuple[str, str]:
        path, code = path.partition("?")[0], int(status)
        level = ERROR if code >= _SERVER_FAULT else WARNING if code >= _CLIENT_FAULT else INFO
        if code == _BACK_PRESSURE:
            level = WARNING
        if path in _CHECK_PATHS:
            self._checked = False
            return level, HEALTH_CHECK
        if path in _FIGURE_PATHS:
            return level, FIGURES
        if method == "POST" and path == "/generate" and self._checked:
            self._checked = False
            return level, HEALTH_CHECK
        return level, ""


def _said(text: str) -> str:
    if _HARMLESS.search(text) is not None:
        return INFO
    if _WARNING.search(text) is not None:
        return WARNING
    if _ERROR.search(text) is not None:
        return ERROR
    if _GENERIC.search(text) is not None:
        return ERROR if search([text]) is not None else WARNING
    return INFO
