"""`Idempotency-Key` on POST: the same request sent twice is done once, and answered twice alike.

An ASGI middleware, because an answer may be kept only when the handler's transaction has committed, which is when the answer
begins to be sent. The key is reserved first, in a transaction of its own; an error releases it, since an error did nothing.
The key belongs to its user, and to one request: method, path, query and body. An upload is never held in memory, so of its
body the length alone counts. Answers that show a secret are not kept: a second try is told so.
"""

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from anyio.to_thread import run_sync
from sqlalchemy import delete, update
from sqlmodel import Session, col
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth.csrf import replayed
from api.auth.identity import Identity
from api.errors import Problem, problem_response
from api.guards import UPLOAD_PATHS
from db.engine import Database
from db.tables import IdempotencyKey
from db.types import now

REST = "/api/"
"""Pages have no part in this: their answers are no JSON, and the one with a new user's token must be kept nowhere."""
KEPT_FOR = timedelta(days=1)
MAX_KEY = 255
MAX_ANSWER = 1 << 20
INTERRUPTED = 0
"""Status of a key whose request was cut off by the end of the app: whether it took effect is not known."""
SUCCESS = range(200, 300)


@dataclass(frozen=True, slots=True)
class _Claim:
    user_id: int
    key: str
    request_hash: str


class Idempotency:
    """Replays answers for keys already used.

    Args:
        app: what lies behind; the gate must stand in front.
        db: where keys and answers are kept.
    """

    def __init__(self, app: ASGIApp, db: Database) -> None:
        self._app, self._db = app, db

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do it once."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(REST):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        key = request.headers.get("idempotency-key")
        identity: Identity | None = getattr(request.state, "identity", None)
        if key is None or identity is None:
            await self._app(scope, receive, send)
            return
        if not key or len(key) > MAX_KEY or not key.isprintable():
            problem = Problem(
                422,
                "idempotency_key_invalid",
                f"An Idempotency-Key has 1 to {MAX_KEY} printable characters.",
                "Idempotency-Key",
            )
            await problem_response(request, problem)(scope, receive, send)
            return
        digest = hashlib.sha256(f"{scope['method']}\n{scope['path']}\n".encode() + scope["query_string"] + b"\n")
        if scope["path"] in UPLOAD_PATHS:
            digest.update(request.headers.get("content-length", "").encode())
        else:
            body = await request.body()
            receive = replayed(body, receive)
            digest.update(body)
        claim = _Claim(identity.id, key, digest.hexdigest())
        before = await run_sync(self._reserve, claim)
        if before is not None:
            answer = problem_response(request, before) if isinstance(before, Problem) else before
            await answer(scope, receive, send)
            return
        await self._perform(claim, scope, receive, send)

    async def _perform(self, claim: _Claim, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; keep a success before it is sent, release the key on anything else."""
        held: list[Message] = []
        settled = False

        async def keep(message: Message) -> None:
            nonlocal settled
            if settled:
                await send(message)
                return
            held.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await run_sync(self._settle, claim, held)
                settled = True
                for waiting in held:
                    await send(waiting)

        try:
            await self._app(scope, receive, keep)
        finally:
            if not settled:
                await run_sync(self._release, claim)

    def _reserve(self, claim: _Claim) -> Problem | Response | None:
        with self._db.write() as session:
            session.execute(delete(IdempotencyKey).where(col(IdempotencyKey.created_at) < now() - KEPT_FOR))
            row = session.get(IdempotencyKey, (claim.user_id, claim.key), with_for_update=True)
            if row is None:
                session.add(IdempotencyKey(user_id=claim.user_id, key=claim.key, request_hash=claim.request_hash))
                return None
            return _answer_again(row, claim)

    def _settle(self, claim: _Claim, held: list[Message]) -> None:
        status = next(int(message["status"]) for message in held if message["type"] == "http.response.start")
        headers = next(message["headers"] for message in held if message["type"] == "http.response.start")
        body = b"".join(message.get("body", b"") for message in held if message["type"] == "http.response.body")
        if status not in SUCCESS:
            self._release(claim)
            return
        secret = any(name.lower() == b"x-shown-once" for name, _ in headers) or len(body) > MAX_ANSWER
        with self._db.write() as session:
            session.execute(
                update(IdempotencyKey)
                .where(col(IdempotencyKey.user_id) == claim.user_id, col(IdempotencyKey.key) == claim.key)
                .values(status=status, body=None if secret else body.decode())
            )

    def _release(self, claim: _Claim) -> None:
        with self._db.write() as session:
            session.execute(
                delete(IdempotencyKey).where(
                    col(IdempotencyKey.user_id) == claim.user_id,
                    col(IdempotencyKey.key) == claim.key,
                    col(IdempotencyKey.status).is_(None),
                )
            )


def _answer_again(row: IdempotencyKey, claim: _Claim) -> Problem | Response:
    field: Literal["Idempotency-Key"] = "Idempotency-Key"
    if row.request_hash != claim.request_hash:
        return Problem(
            422, "idempotency_key_reused", "This Idempotency-Key was used for another request; take a new one.", field
        )
    if row.status is None:
        return Problem(
            409,
            "idempotency_in_progress",
            "The first request with this Idempotency-Key is still being worked on; ask again in a moment.",
            field,
            headers={"Retry-After": "1"},
        )
    if row.status == INTERRUPTED:
        return Problem(
            409,
            "idempotency_interrupted",
            "The first request with this Idempotency-Key was cut off when the app ended: look whether it took effect, then "
            "use a new key.",
            field,
        )
    if row.body is None:
        return Problem(
            409,
            "idempotency_shown_once",
            "This was done, and its answer is shown only once; make another with a new key.",
            field,
        )
    return Response(row.body, row.status, {"Idempotent-Replayed": "true"}, media_type="application/json")


def mark_interrupted(session: Session) -> None:
    """At start: requests that were under way when the app ended will never answer."""
    session.execute(update(IdempotencyKey).where(col(IdempotencyKey.status).is_(None)).values(status=INTERRUPTED))
