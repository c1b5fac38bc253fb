"""A supervised server's figures reach its row and its charts while it lives, and nothing of them is left as new when it ended."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sqlmodel import select

from db.tables import Backend, BackendFigure
from inference.backends.server.client import GenerateError, SglangClient, new_rid
from tests.backends.conftest import HURRIED, Lab

OFTEN = replace(HURRIED, figures_s=0.1, idle_figures_s=0.1)


def running(row: Backend) -> object:
    return (row.figures or {}).get("running")


def kept(lab: Lab, backend_id: int) -> list[BackendFigure]:
    with lab.db.read() as s:
        return list(s.exec(select(BackendFigure).where(BackendFigure.backend_id == backend_id)))


async def ask(row: Backend) -> None:
    async with SglangClient(row.url or "", row.api_key) as client:
        await client.generate([5], {"max_new_tokens": 8}, new_rid(), timeout_s=60)


def test_figures_follow_the_work_of_a_managed_server_and_end_with_it(lab: Lab) -> None:
    lab.use_whole_fake({"rules": [{"when": {"contains": 5}, "answer": {"hang": True}}]})
    one = lab.create(drain_limit_s=0.5)
    with lab.supervising(OFTEN), ThreadPoolExecutor(1) as pool:
        lab.ask(one, "start")
        row = lab.wait(one, lambda row: row.observed_state == "ready" and running(row) == 0)
        assert (row.figures or {})["source"] == "loads"
        work = pool.submit(asyncio.run, ask(row))
        row = lab.wait(one, lambda row: running(row) == 1)
        evidence = {item["source"]: item["text"] for item in row.evidence}
        assert "running" in evidence["figures"]
        lab.ask(one, "stop")
        lab.wait(one, lambda row: row.observed_state == "stopped" and row.figures is None)
        assert isinstance(work.exception(60), GenerateError)
    assert kept(lab, one) != []  # the charts keep what was


def test_of_a_server_that_tells_them_nowhere_else_the_figures_are_those_of_its_log(lab: Lab) -> None:
    lab.behave(absent=["/v1/loads", "/metrics"])
    one = lab.create()
    with lab.supervising(OFTEN):
        lab.ask(one, "start")
        lab.wait(one, lambda row: row.observed_state == "ready" and row.probe is not None)
        log = Path(lab.start_row(one).log_path or "")
        said = "Decode batch, #running-req: 3, #token: 4096, token usage: 0.12, gen throughput (token/s): 987.65, #queue-req: 1"
        with log.open("a") as file:
            file.write(f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {said}\n")  # noqa: DTZ005  (the machine's own time, as SGLang's)
        row = lab.wait(one, lambda row: running(row) == 3)
        figures = row.figures or {}
        assert (figures["source"], figures["queued"], figures["kv_usage"]) == ("log", 1, 0.12)
        row = lab.wait(one, lambda row: "tokens flow" in row.message)
        evidence = {item["source"]: item["text"] for item in row.evidence}
        assert evidence["figures"] == "3 running, 1 waiting, by the log."
        assert "last flowed at" in evidence["tokens"]
        lab.ask(one, "kill")
        lab.wait(one, "stopped")


def test_an_attached_server_that_is_not_watched_any_more_tells_nothing(lab: Lab, start_fake_sglang) -> None:
    fake = start_fake_sglang()
    far = lab.attach(fake.url)
    with lab.supervising(OFTEN):
        lab.ask(far, "start")
        lab.wait(far, lambda row: row.observed_state == "ready" and running(row) == 0)
        lab.ask(far, "stop")
        lab.wait(far, lambda row: row.observed_state == "stopped" and row.figures is None)
