"""Figures for Prometheus: what the database counts, and how requests go."""

import time
from collections.abc import Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import func
from sqlmodel import col, select
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.engine import Database
from db.tables import Backend, Run, RunCategory
from db.types import now
from inference.backends.server.breaker import as_of

BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class DatabaseFigures(Collector):
    """Backends and runs by state, samples and tokens by run: read when asked, from rows and counters, never counted out."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing ahead of time: the registry need not ask the database when it is made."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The figures as they stand."""
        backends = GaugeMetricFamily("draftmill_backends", "Backends by observed state.", labels=["state"])
        yield from _backends(self._db)
        runs = GaugeMetricFamily("draftmill_runs", "Runs by state.", labels=["state"])
        samples = GaugeMetricFamily("draftmill_samples", "Samples of a run by state.", labels=["run", "state"])
        tokens = GaugeMetricFamily("draftmill_tokens", "Tokens of a run's done samples.", labels=["run", "kind"])
        sums = [func.sum(getattr(RunCategory, name)) for name in (*_STATES, *_TOKENS)]
        with self._db.read() as session:
            for state, count in session.execute(
                select(Backend.observed_state, func.count()).group_by(Backend.observed_state)
            ):
                backends.add_metric([state], count)
            for state, count in session.execute(select(Run.state, func.count()).group_by(Run.state)):
                runs.add_metric([state], count)
            for row in session.execute(select(col(RunCategory.run_id), *sums).group_by(col(RunCategory.run_id))):
                for name, value in zip(_STATES, row[1 : 1 + len(_STATES)], strict=True):
                    samples.add_metric([str(row[0]), name], float(value))
                for name, value in zip(_TOKENS, row[1 + len(_STATES) :], strict=True):
                    tokens.add_metric([str(row[0]), name.removesuffix("_tokens")], float(value))
        yield from (backends, runs, samples, tokens)


def _backends(db: Database) -> Iterator[GaugeMetricFamily]:
    """Each backend as its row has it. Figures that nobody renewed for a while are left out: a gap is true, a last value is not."""
    labels = ["backend"]
    up = GaugeMetricFamily("draftmill_backend_up", "1 where a backend is ready.", labels=labels)
    state = GaugeMetricFamily("draftmill_backend_state", "1 for the observed state.", labels=[*labels, "state"])
    crashes = GaugeMetricFamily("draftmill_backend_crashes", "Crashes in a row.", labels=labels)
    breaker = GaugeMetricFamily(
        "draftmill_backend_breaker", "1 for the state of the breaker before it.", labels=[*labels, "state"]
    )
    gauges = {
        name: GaugeMetricFamily(f"draftmill_backend_{name}", text, labels=labels) for name, text in _GAUGES.items()
    }
    with db.read() as session:
        rows = list(session.exec(select(Backend).order_by(Backend.name)))
    for row in rows:
        up.add_metric([row.name], float(row.observed_state == "ready"))
        state.add_metric([row.name, row.observed_state], 1.0)
        crashes.add_metric([row.name], row.crashes)
        breaker.add_metric([row.name, (as_of(row.breaker, now()) or {}).get("state", "closed")], 1.0)
        figures = row.figures or {}
        if not figures or (now() - datetime.fromisoformat(figures["at"])).total_seconds() > OLD_S:
            continue
        for name, gauge in gauges.items():
            value = figures.get(_FIGURE_OF.get(name, name))
            if value is not None:
                gauge.add_metric([row.name], value)
    yield from (up, state, crashes, breaker, *gauges.values())


OLD_S = 90.0
"""The supervisor renews a living server's figures every 30 s at least."""
_GAUGES = {
    "running": "Requests that the server runs.",
    "queued": "Requests that wait in the server.",
    "kv_usage": "Share of the KV cache in use, 0 to 1.",
    "tokens_per_second": "Tokens that the server generates a second.",
    "cache_hit": "Share of prompt tokens found in the prefix cache, 0 to 1.",
}
_FIGURE_OF = {"tokens_per_second": "tokens_per_s"}
_STATES = ("pending", "in_flight", "done", "failed", "skipped", "flagged")
_TOKENS = ("prompt_tokens", "completion_tokens")


class Metrics:
    """One app's figures."""

    def __init__(self, db: Database) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(DatabaseFigures(db))
        self.requests = Counter(
            "draftmill_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "draftmill_http_seconds", "Time until an answer began.", ["route"], buckets=BUCKETS, registry=self.registry
        )

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry)


class MetricsMiddleware:
    """Counts requests by route (never by address: those are without number)."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve and count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = _route(scope)
                self._metrics.requests.labels(_method(scope["method"]), route, str(message["status"])).inc()
                self._metrics.seconds.labels(route).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, counted)


def _route(scope: Scope) -> str:
    """The route's pattern; its router does not know that it was included below `/api/v1`."""
    path: str = getattr(scope.get("route"), "path", "other")
    prefix = "/api/v1" if scope["path"].startswith("/api/v1/") and not path.startswith("/api/v1") else ""
    return f"{prefix}{path}" if path != "other" else path


def _method(name: str) -> str:
    return name if name in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} else "other"
