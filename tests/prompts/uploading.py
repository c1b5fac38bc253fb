"""A small upload desk for the tests of this room: bytes in, the set and what was stored out."""

import asyncio
import io
import json
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, select

from db.tables import Prompt, PromptBody
from inference.context import Context
from inference.prompts.service import create_prompt_set, list_errors
from inference.prompts.views import PromptSetView, RowErrorView


@dataclass(frozen=True)
class Desk:
    """Uploads, and looks at what became of them."""

    ctx: Context

    def upload(self, data: bytes, file_name: str = "rows.jsonl", **more: Any) -> PromptSetView:
        stream = more.pop("stream", None) or io.BytesIO(data)
        return asyncio.run(create_prompt_set(self.ctx, name="set", stream=stream, file_name=file_name, **more))

    def rows(self, *rows: object, **more: Any) -> PromptSetView:
        return self.upload("\n".join(map(json.dumps, rows)).encode(), **more)

    def stored(self, made: PromptSetView) -> list[tuple[Prompt, PromptBody]]:
        with self.ctx.db.read() as s:
            query = select(Prompt, PromptBody).join(PromptBody, col(PromptBody.prompt_id) == col(Prompt.id))
            rows = list(s.exec(query.where(col(Prompt.prompt_set_id) == made.id).order_by(col(Prompt.line))).all())
            s.expunge_all()  # a session that ends would take the loaded values with it
            return rows

    def messages(self, made: PromptSetView) -> list[list[dict[str, Any]]]:
        return [json.loads(body.messages) for _, body in self.stored(made)]

    def errors(self, made: PromptSetView) -> list[RowErrorView]:
        with self.ctx.db.read() as s:
            return list_errors(s, made.id, limit=500).items

    def codes(self, made: PromptSetView) -> list[tuple[int, str, str]]:
        return [(error.line, error.severity, error.code) for error in self.errors(made)]
