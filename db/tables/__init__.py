"""Every table, by noun. Importing this package fills `SQLModel.metadata`.

Figures that lists filter by sit in narrow indexed rows; token ids never do (see `db.idstore`); a prompt's body sits beside
its row, not in it.
"""

from sqlmodel import SQLModel

SQLModel.metadata.naming_convention = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

from db.tables.backends import Backend, BackendEvent, BackendFigure, BackendPort, BackendStart, Leftover  # noqa: E402  (the naming convention comes first)
from db.tables.exports import Export  # noqa: E402
from db.tables.payloads import Payload  # noqa: E402
from db.tables.people import AccessToken, AuditEntry, IdempotencyKey, LoginLink, User, WebSession  # noqa: E402
from db.tables.prompts import Prompt, PromptBody, PromptError, PromptSet  # noqa: E402
from db.tables.rederivations import Rederivation  # noqa: E402
from db.tables.review import Comment, Review, SampleTag, Tag  # noqa: E402
from db.tables.runs import Attempt, Run, RunBackend, RunCategory, RunEvent, Sample, SampleFlag  # noqa: E402

for _table in SQLModel.metadata.tables.values():
    if _table.autoincrement_column is not None:
        # SQLite would hand a deleted run's number to the next one, and with it old links, logs and ids; PostgreSQL never does
        _table.kwargs["sqlite_autoincrement"] = True

__all__ = [
    "AccessToken",
    "Attempt",
    "AuditEntry",
    "Backend",
    "BackendEvent",
    "BackendFigure",
    "BackendPort",
    "BackendStart",
    "Comment",
    "Export",
    "IdempotencyKey",
    "Leftover",
    "LoginLink",
    "Payload",
    "Prompt",
    "PromptBody",
    "PromptError",
    "PromptSet",
    "Rederivation",
    "Review",
    "Run",
    "RunBackend",
    "RunCategory",
    "RunEvent",
    "Sample",
    "SampleFlag",
    "SampleTag",
    "Tag",
    "User",
    "WebSession",
]
