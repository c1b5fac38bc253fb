"""Random secrets and their fingerprints.

All of them carry 256 random bits, so a fast hash suffices: there is nothing to guess. A lookup by the hash leaks no timing
of the secret itself; comparisons of two strings are constant-time.
"""

import hashlib
import hmac
import secrets

SECRET_BYTES = 32


def new_secret(prefix: str = "") -> str:
    """A URL-safe random secret; the prefix makes a leaked one recognisable."""
    return prefix + secrets.token_urlsafe(SECRET_BYTES)


def fingerprint(secret: str) -> str:
    """SHA-256, hex: what the database keeps."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def same(left: str, right: str) -> bool:
    """Whether two secrets are equal, in constant time."""
    return hmac.compare_digest(left.encode("utf-8", "surrogateescape"), right.encode("utf-8", "surrogateescape"))
