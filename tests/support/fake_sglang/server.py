"""The fake SGLang as a thing a test holds: runs on a thread of its own, remembers what it was asked, dies when told."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.support.fake_sglang.errors import Died, Refused, error_body
from tests.support.fake_sglang.facts import Facts, Knobs
from tests.support.fake_sglang.model import Model
from tests.support.fake_sglang.routes import Routes
from tests.support.fake_sglang.script import Answer, JsonScript, Script
from tests.support.fake_sglang.vocabulary import BuiltinVocabulary, Vocabulary
from tests.support.fake_sglang.wire import Connection, Request, Response

KEEP_ALIVE = 5.0
"""Seconds after which an idle connection is closed, as uvicorn under SGLang does"""


@dataclass(frozen=True)
class Seen:
    """One request as it was answered; `status` None where the connection broke or is still open."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    at: float
    status: int | None


class FakeSglang:
    """A fake server. `facts` say what it is, `knobs` how it behaves, `script` what it answers; all may change while it runs."""

    def __init__(
        self,
        *,
        facts: Facts | None = None,
        knobs: Knobs | None = None,
        script: Script | None = None,
        vocabulary: Vocabulary | None = None,
        port: int = 0,
        control: bool = False,
        keep_alive: float = KEEP_ALIVE,
        on_death: Callable[[], None] | None = None,
    ) -> None:
        self.facts, self.knobs = facts or Facts(), knobs or Knobs()
        self.model = Model(self.facts, self.knobs, vocabulary or BuiltinVocabulary(), script)
        self.port, self.dead = port, False
        self._wanted_port, self._control, self._keep_alive, self._on_death = port, control, keep_alive, on_death
        self.crashes: list[Exception] = []
        self._seen: list[Seen] = []
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped: asyncio.Event
        self._routes: Routes

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def script(self) -> Script | None:
        """What decides the answers."""
        return self.model.script

    @script.setter
    def script(self, script: Script | None) -> None:
        self.model.script = script

    @property
    def requests(self) -> list[Seen]:
        """Everything asked so far."""
        return list(self._seen)

    def seen(self, path: str) -> list[Seen]:
        """What was asked of one path."""
        return [request for request in self._seen if request.path == path]

    def answers(self, *answers: Answer | list[int] | None) -> None:
        """Scripts the next prompts, one answer each (None: the usual one); then the usual one again."""
        left = list(answers)
        self.script = lambda _call: left.pop(0) if left else None

    async def until_live(self, count: int) -> None:
        """Waits (on the test's own loop) until exactly so many prompts are in flight."""
        while len(self.model.live) != count:  # noqa: ASYNC110  (the other thread's loop has no event for this one)
            await asyncio.sleep(0.005)

    async def serve(self) -> None:
        """Listens; returns when bound."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        factory = lambda: Connection(self._answer, self._connections, self._keep_alive)  # noqa: E731  (a protocol factory)
        self._server = await self._loop.create_server(factory, "127.0.0.1", self._wanted_port, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]
        self._routes, self.dead = Routes(self.model, self.port), False

    async def wait_stopped(self) -> None:
        """Returns when it was stopped or died."""
        await self._stopped.wait()

    def start(self) -> "FakeSglang":
        """Runs it on a thread; returns when it listens."""
        ready = threading.Event()
        failure: list[BaseException] = []

        async def main() -> None:
            try:
                await self.serve()
            except OSError as error:
                failure.append(error)
                return
            finally:
                ready.set()
            await self.wait_stopped()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._thread = threading.Thread(target=lambda: asyncio.run(main()), name="fake-sglang", daemon=True)
        self._thread.start()
        ready.wait()
        if failure:
            raise failure[0]
        return self

    def stop(self) -> None:
        """Stops it; connections are dropped. Harmless when it is already dead."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._fall)
        if self._thread is not None:
            self._thread.join()

    kill = stop

    def restart(self) -> "FakeSglang":
        """Starts a stopped or dead one again on the same port."""
        self.stop()
        self._wanted_port = self.port
        self.knobs.die_after = None
        return self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _fall(self) -> None:
        self.dead = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        self._stopped.set()

    async def _answer(self, request: Request) -> Response:
        at = time.time()
        status: int | None = None
        work = asyncio.ensure_future(self._respond(request))
        gone = asyncio.ensure_future(request.gone.wait())
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():  # the client hung up: the server notices a while later, and the work ends
                await asyncio.wait((work,), timeout=self.knobs.disconnect_grace)
                work.cancel()
                return Response(drop=True)
            response = work.result()
            status = None if response.drop or response.cut is not None else response.status
        except Died:
            await asyncio.sleep(self.knobs.death_delay)
            if self._on_death is not None:
                self._on_death()
            self._fall()
            return Response(drop=True)
        else:
            return response
        finally:
            gone.cancel()
            if not request.path.startswith("/__fake__"):
                self._seen.append(Seen(request.method, request.path, request.headers, request.body, at, status))

    async def _respond(self, request: Request) -> Response:
        if self._control and request.path.startswith("/__fake__/"):
            return self._controlled(request)
        try:
            return await self._routes.answer(request)
        except (Died, Refused, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  (an unhandled exception is a plain 500 there too)
            self.crashes.append(error)
            return Response(500, *error_body(500, "plain", "Internal Server Error"))

    def _controlled(self, request: Request) -> Response:
        data = json.loads(request.raw) if request.raw else {}
        what = request.path.removeprefix("/__fake__/")
        if what == "requests":
            rows = [{"method": s.method, "path": s.path, "body": s.body, "status": s.status} for s in self._seen]
            return Response.of({"count": self.model.count, "live": sorted(self.model.live), "requests": rows})
        if what == "script":
            self.script = JsonScript(data)
        elif what in {"knobs", "facts"}:
            target = self.knobs if what == "knobs" else self.facts
            for name, value in data.items():
                if not hasattr(target, name):
                    return Response.of({"error": f"no such name: {name}"}, 400)
                setattr(target, name, set(value) if name == "missing" else value)
        elif what == "die":
            raise Died
        else:
            return Response(404)
        return Response.of({"ok": True})
