"""Keys never leave a log: what looks like one is masked, and the known ones wherever they stand.

A server prints its arguments, the key among them; the key of a former start is known to nobody any more. So a key is told by
where it stands (`api_key=…`, `Bearer …`), by the shape of those that we make for servers, and the current one by its value.
Masking comes before a line is cut anywhere: half a key is no longer one that can be told.
"""

import re

MASK = "***"

_NAMES = (
    r"(?:x-)?(?:admin[-_])?api[-_]?key|(?:hf|hub|access|auth|secret|refresh|session)[-_]token|passw(?:or)?d"
    r"|client[-_]secret|secret[-_](?:access[-_])?key"
)
_BARE = r"""[^\s"',}\])]"""
_NO_KEY = rf"(?!(?:None|null|True|False|Field|SecretStr)(?!{_BARE}))"
_SPACE = r"[^\S\n]*"
_SET = rf"""(?:\\*["'])?{_SPACE}(?:[=:]|(?<=["']),){_SPACE}b?"""
_FLAGS = r"--(?:(?:admin-)?api-key|hf-token|ssl-keyfile-password)"
_GIVEN = r"""(?:=|["']?,?[^\S\n]+)"""

_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"""((?:{_NAMES}){_SET}\\+["'])[^"'\\\s]+""",
        rf"""((?:{_NAMES}){_SET}(?P<quote>["']))(?:\\.|(?!(?P=quote)).)+""",
        rf"""((?:{_NAMES}){_SET})(?!\\*["']){_NO_KEY}{_BARE}+""",
        rf"""({_FLAGS}{_GIVEN}(?P<quote>["']))(?:\\.|(?!(?P=quote)).)+""",
        rf"""({_FLAGS}{_GIVEN}){_BARE}+""",
        rf"(\b(?:Bearer|Basic)[^\S\n]+){_BARE}+",
        rf"""(authorization{_SET}\\*["']?(?:(?:Bearer|Basic|Token)[^\S\n]+)?){_BARE}+""",
        r"(\bhf_)[A-Za-z0-9]{16,}",
        r"(\b(?:sk-|gh[oprsu]_))[A-Za-z0-9_-]{16,}",
        r"""(://)[^/\s@"']+(?=@)""",
    )
)
_HINTS = (
    "api", "hf", "hub_token", "hub-token", "access", "auth", "secret", "refresh", "session", "passw", "bearer", "basic", "sk-",
    "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "://",
)  # fmt: skip
"""A line without any of these needs no pattern but the last: looking for them costs a hundredth."""

_OURS = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{48}(?![0-9A-Za-z])")
"""A key that Draftmill made for a server (24 random bytes), of whichever start."""
_BEGUN = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{8,48}\Z")
_SHORTEST_BEGUN = 4


def redact(text: str, secrets: tuple[str, ...] = (), *, unfinished: bool = False) -> str:
    """The text with every key masked: what looks like one, and the known ones wherever they stand.

    Args:
        text: whole lines.
        secrets: known keys.
        unfinished: more of the last line may come: what may be the beginning of a key at its end is masked as well.
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    low = text.lower()
    if any(map(low.__contains__, _HINTS)):
        for pattern in _SECRETS:
            text = pattern.sub(rf"\g<1>{MASK}", text)
    text = _OURS.sub(MASK, text)
    return _without_beginning(text, secrets) if unfinished else text


def _without_beginning(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        for length in range(min(len(secret), len(text)), _SHORTEST_BEGUN - 1, -1):
            if text.endswith(secret[:length]):
                text = text[:-length] + MASK
                break
    return _BEGUN.sub(MASK, text)
