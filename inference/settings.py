"""Every setting, parsed once (environment or `.env`, prefix `DRAFTMILL_`)."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def cache_dir() -> Path:
    """The user's cache folder for engines and checkpoints (`XDG_CACHE_HOME` is honoured)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftmill"


class Settings(BaseSettings):
    """What the operator decides. Each field's description is its help text."""

    model_config = SettingsConfigDict(env_prefix="DRAFTMILL_", env_file=".env", extra="ignore", frozen=True)

    data_dir: Path = Field(Path("data"), description="Where the database, uploads, ids, logs and exports lie.")
    database_url: str = Field("", description="SQLAlchemy URL; empty means SQLite in the data directory.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8400, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    allowed_hosts: Annotated[list[str], NoDecode] = Field(
        ["localhost", "127.0.0.1", "[::1]"],
        description="Comma-separated Host names that are answered (against DNS rebinding).",
    )
    admin_token: SecretStr | None = Field(None, description="The admin's token; unset: made and printed once.")
    sglang_python: Path | None = Field(
        None,
        description="The Python interpreter that has sglang; unset: the engine that `make engine` put in the cache folder.",
    )
    model_roots: Annotated[list[Path], NoDecode] = Field(
        default_factory=lambda: [cache_dir() / "models"],
        description="Colon-separated folders from which checkpoints and tokenizers may be loaded.",
    )
    allow_remote_code: bool = Field(False, description="Whether a checkpoint's own Python code may run.")
    allowed_flags: Annotated[list[str], NoDecode] = Field(
        default_factory=list,
        description="Comma-separated SGLang flags that run code, write files or open ports, and may be passed all the same.",
    )
    log_max_mb: int = Field(64, ge=2, description="Disk space that one start's log may take, in MiB.")
    log_keep: int = Field(10, ge=1, description="Logs kept of each backend's last starts.")
    max_upload_mb: int = Field(4096, gt=0, description="Largest upload, in MiB.")

    @field_validator("allowed_hosts", "allowed_flags", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("model_roots", mode="before")
    @classmethod
    def _split_roots(cls, value: Any) -> Any:
        return [Path(part).expanduser() for part in value.split(":") if part] if isinstance(value, str) else value

    @property
    def resolved_database_url(self) -> str:
        """The database URL, SQLite in the data directory where none is set."""
        return self.database_url or f"sqlite:///{(self.data_dir / 'draftmill.sqlite').absolute()}"
