"""Backends in every state a page must tell apart, as the supervisor would have written them down."""

from datetime import timedelta
from typing import Any

from sqlmodel import Session

from db.tables import Backend, BackendEvent, BackendFigure, BackendStart
from db.types import now

HOSTILE = "<script>document.title='owned'</script>"
_REACHED = ("spawned", "initialising", "loading weights", "memory pool", "graphs", "warm-up")
_TOOK_S = (9.0, 4.0, 61.0, 2.0, 31.0, 6.0)


def seed_fleet(session: Session) -> dict[str, int]:
    """One backend of each kind; name → id."""
    made = {
        "starting": _managed(session, "starting", "starting", "Importing SGLang's libraries.", reached=1, phase={}),
        "loading": _managed(
            session, "loading", "loading", "Loading weights 3/15, about 20 s left.", reached=3,
            phase={"done": 3, "total": 15, "left_s": 20.4}, deadline_s=1793,
        ),
        "ready": _managed(
            session, "ready", "ready", "Ready: it answers requests, and the answers are this start's own.", reached=6, ready=True,
            figures={"running": 12, "queued": 3, "kv_usage": 0.43, "tokens_per_s": 987.6, "cache_hit": 0.31, "stale_s": 0.2},
            charted=True,
        ),
        "unresponsive": _managed(
            session, "unresponsive", "unresponsive",
            "The process is alive but has not answered for 6 min: busy with a very long step, or hung. Nothing is killed.", reached=6,
            ready=True, figures={"running": 4, "queued": 0, "kv_usage": 0.2, "tokens_per_s": None, "stale_s": 312.0},
            breaker={"state": "open", "failures": 5, "until": (now() + timedelta(hours=1)).isoformat(),
                     "error": "/generate did not answer within 60 s."},
        ),
        "draining": _managed(
            session, "draining", "draining", "Draining: 4 requests are still in flight.", reached=6, ready=True, wanted="stopped",
            deadline_s=24, figures={"running": 4, "queued": 0, "kv_usage": 0.2, "tokens_per_s": 120.0, "stale_s": 0.1},
        ),
        "backoff": _managed(
            session, "backoff", "backoff", "It crashed 2 times in a row; it is started again soon.", reached=6, ready=True, ended=True,
            crashes=2, retry_s=9, error=_out_of_memory(),
        ),
        "failed": _managed(
            session, "failed", "failed", "Failed 4 times in a row; not started again by itself.", reached=4, ended=True, crashes=4,
            error=_out_of_memory(),
        ),
        "unknown": _managed(
            session, "unknown", "unknown",
            "Its process was started on host gpu-7, which cannot be seen from here. It is neither used, started nor killed.", reached=6,
            ready=True,
        ),
        "follower": _managed(
            session, "follower", "ready", "Ready: this node's part runs; node 0 answers.", reached=6, ready=True,
            launch={"nnodes": 2, "node_rank": 1, "dist_init_addr": "10.0.0.1:20000"},
        ),
    }  # fmt: skip
    attached = Backend(
        name=f"attached {HOSTILE}", kind="attached", url="http://gpu-box.example:30000", desired_state="running",
        observed_state="ready", message="Ready: it answers.", model="Qwen/Qwen3-8B", version="0.5.23",
        evidence=[_evidence("health", True, "answered 200."), _evidence("generation", True, HOSTILE)],
        figures=_figures({"running": 0, "queued": 0, "kv_usage": 0.0, "tokens_per_s": 0.0}),
    )  # fmt: skip
    session.add(attached)
    session.flush()
    return {**made, "attached": attached.id or 0}


def _managed(
    session: Session, name: str, state: str, message: str, *, reached: int, phase: dict[str, Any] | None = None, ready: bool = False,
    ended: bool = False, wanted: str = "running", deadline_s: float | None = None, retry_s: float | None = None, crashes: int = 0,
    figures: dict[str, Any] | None = None, charted: bool = False, breaker: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None, launch: dict[str, Any] | None = None,
) -> int:  # fmt: skip
    at = now()
    took = sum(_TOOK_S[: reached - 1])
    began = at - timedelta(seconds=took + (3600 if ready else 5.0 + (phase or {}).get("done", 0)))
    entered = [began + timedelta(seconds=sum(_TOOK_S[:number])) for number in range(reached)]
    ready_at = began + timedelta(seconds=sum(_TOOK_S)) if ready else None
    model = {"model_path": "/models/Qwen3-8B", "tp_size": 2, **(launch or {})}
    backend = Backend(
        name=name, kind="managed", desired_state=wanted, observed_state=state, message=message, launch=model,
        model="/models/Qwen3-8B", version="0.5.23" if ready else None, crashes=crashes, error=error, breaker=breaker,
        deadline_at=at + timedelta(seconds=deadline_s) if deadline_s is not None else None,
        retry_at=at + timedelta(seconds=retry_s) if retry_s is not None else None,
        url="http://127.0.0.1:31000", figures=_figures(figures) if figures is not None else None,
        phase={"name": _REACHED[reached - 1], "since": entered[-1].isoformat(), **phase} if phase is not None else None,
        evidence=[
            _evidence("process", not ended, "Process 4711 is alive." if not ended else "Process 4711 ended; nothing of it is left."),
            _evidence("log", True, f"Last stage in the log: {_REACHED[reached - 1]}.", 4),
            *([_evidence("health", state != "unresponsive", "/ready answered 200." if state != "unresponsive" else "/ready did not answer.")]
              if ready else []),
            *([_evidence("tokens", True, "Tokens flow: 987 a second.")] if (figures or {}).get("tokens_per_s") else []),
        ],
    )  # fmt: skip
    session.add(backend)
    session.flush()
    for number in (1, 2):
        last = number == 2
        start = BackendStart(
            backend_id=backend.id, number=number, started_at=began if last else began - timedelta(hours=2),
            command=["python", "-m", "sglang.launch_server", "--model-path", "/models/Qwen3 8B", "--tp-size", "2", "--port", "31000",
                     "--api-key", "***"],
            environment={"CUDA_VISIBLE_DEVICES": "GPU-1f0e2d3c,GPU-4b5a6978"}, port=31000, nccl_port=31100, pid=4711, host="gpu-7",
            phases=[{"name": _REACHED[at], "at": when.isoformat()} for at, when in enumerate(entered)] if last else [],
            ready_at=ready_at if last else None, ended_at=at if ended or not last else None,
            exit_code=None if last else -9, ending=None if last else "It ended after SIGKILL from outside.",
            error=_out_of_memory() if not last else None,
        )  # fmt: skip
        session.add(start)
        session.flush()
        backend.start_id = start.id
    session.add(BackendEvent(backend_id=backend.id, kind=state, message=message))
    for number in range(90 if charted else 0):
        values = {"running": 8 + number % 9, "queued": number % 4, "kv_usage": 0.2 + (number % 30) / 100}
        session.add(
            BackendFigure(
                backend_id=backend.id,
                at=at - timedelta(seconds=10 * number + (120 if number > 40 else 0)),
                source="loads",
                tokens_per_s=700.0 + 40 * (number % 11),
                cache_hit=0.3,
                **values,
            )
        )
    return backend.id or 0


def _figures(values: dict[str, Any]) -> dict[str, Any]:
    return {"at": (now() - timedelta(seconds=2)).isoformat(), "source": "loads", **values}


def _evidence(source: str, ok: bool | None, text: str, age_s: float = 1.0) -> dict[str, Any]:
    return {"source": source, "at": (now() - timedelta(seconds=age_s)).isoformat(), "ok": ok, "text": text}


def _out_of_memory() -> dict[str, Any]:
    return {
        "code": "kv_memory",
        "summary": "No room for the KV cache beside the weights.",
        "cure": "Raise mem_fraction_static, or use more GPUs (tp_size).",
        "lines": [
            "[2026-11-30 12:00:01 TP0] Load weight end. elapsed=61.02 s, avail mem=1.10 GB, mem usage=77.90 GB.",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            HOSTILE,
        ],
    }
