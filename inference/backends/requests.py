"""What people send to make or change a backend, checked as far as it can be without the database."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from db.errors import Invalid
from inference.backends.launch.spec import LaunchSpec

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_MAX_KEY = 1000
_PORTS = {"http": 80, "https": 443}


def _plain_key(key: SecretStr) -> SecretStr:
    """The key, if a header can carry it."""
    text = key.get_secret_value()
    if len(text) > _MAX_KEY or any(not "!" <= letter <= "~" for letter in text):
        raise ValueError(f"an API key has at most {_MAX_KEY} characters, printable ASCII without blanks")
    return key


ApiKey = Annotated[SecretStr, AfterValidator(_plain_key)]


class NewBackend(BaseModel):
    """What it takes to make a backend: `launch` for a managed one, `url` (and `api_key`) for an attached one."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80)
    kind: str = Field("managed", pattern="^(managed|attached)$")
    url: str | None = Field(None, max_length=500)
    api_key: ApiKey | None = None
    launch: LaunchSpec | None = None


class BackendChanges(BaseModel):
    """What may be changed; a field that is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, min_length=1, max_length=80)
    url: str | None = Field(None, max_length=500)
    api_key: ApiKey | None = None
    launch: LaunchSpec | None = None


def checked_url(url: str | None) -> str:
    """The base URL of an attached server, without a trailing slash.

    Raises:
        Invalid: `url_missing` or `bad_url`.
    """
    if not url:
        raise Invalid("url_missing", "An attached backend needs url, like http://127.0.0.1:30000.", field="url")
    try:
        parts = urlsplit(url.strip())
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        raise Invalid("bad_url", f"url {url!r} cannot be read: give it like http://host:30000.", field="url") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        raise Invalid(
            "bad_url",
            f"url {url!r} must be http:// or https:// with a host: give it like http://host:30000.",
            field="url",
        )
    if _HOST.fullmatch(parts.hostname) is None or _PATH.fullmatch(parts.path) is None:
        raise Invalid(
            "bad_url",
            f"url {url!r} holds characters that no address has: write other letters of a host as xn--…, of a path as %XX.",
            field="url",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid(
            "bad_url", "url must hold no user, password, query or fragment: the key goes into api_key.", field="url"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def same_server(left: str | None, right: str | None) -> bool:
    """Whether two base URLs lead to one server: scheme, host and port, whatever their paths."""
    return left is not None and right is not None and _origin(left) == _origin(right)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
