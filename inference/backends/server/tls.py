"""The one TLS context of this process's HTTP clients: reading the certificates costs more than a request."""

import ssl
from functools import cache

import httpx


@cache
def tls_context() -> ssl.SSLContext:
    """A verifying context."""
    return httpx.create_ssl_context()
