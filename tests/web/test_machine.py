"""GPUs and leftovers on the page of backends: in words and bars, with a button for those who may press it. The driver is played."""

import os
from collections.abc import Iterator

import pytest
from sqlmodel import select

from db.tables import BackendStart, Leftover
from db.types import now
from inference.backends import machine as seen
from inference.backends.host import gpus
from tests.support.fake_nvml import NVML_ERROR_LIB_RM_VERSION_MISMATCH, Device, FakeNvml
from tests.web.reading import check_page, read
from tests.web.site import HOSTILE, Site, csrf_of
from web import machine

RUNS = "draftmill-0123abcd-1-1-0123456789abcdef"
LEFT = "draftmill-0123abcd-1-2-0123456789abcdef"


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(gpus, "nvml", lambda: fake)
    monkeypatch.setattr(gpus, "_SURVEYOR", gpus.Surveyor())
    monkeypatch.setattr(seen, "FRESH_S", 0.0)
    return fake


@pytest.fixture
def starts(site: Site) -> Iterator[None]:
    """One start that runs and one that is over, of the site's backend; what a test leaves is taken away."""
    db = site.shop.ctx.db
    with db.write() as s:
        s.add(BackendStart(backend_id=site.backend_id, number=1, weight_version=RUNS))
        s.add(BackendStart(backend_id=site.backend_id, number=2, weight_version=LEFT, ended_at=now()))
    yield
    with db.write() as s:
        for row in [
            *s.exec(select(BackendStart).where(BackendStart.weight_version.in_([RUNS, LEFT]))),
            *s.exec(select(Leftover)),
        ]:
            s.delete(row)


def _leave(site: Site, **columns: object) -> int:
    with site.shop.ctx.db.write() as s:
        row = Leftover(
            marker=LEFT, pid=4711, pid_started=1_700_000_000.0, name=HOSTILE[:60], message=HOSTILE, **columns
        )
        s.add(row)
        s.flush()
        assert row.id is not None
        return row.id


def test_a_gpu_shows_its_memory_by_who_holds_it(
    site: Site, starts: None, play: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = {os.getpid(): RUNS, os.getppid(): LEFT}
    monkeypatch.setattr(seen, "marker_of", marks.get)
    play.devices = [
        Device("GPU-a", total=1_000, used=900, compute=[(os.getpid(), 500), (os.getppid(), 200), (2**22 + 1, None)])
    ]
    with site.as_("reviewer") as client:
        page = check_page(client.get("/backends").text)
        part = client.get("/backends?part=gpus").text
    (panel,) = page.all("section", **{"aria-labelledby": "h-gpus"})
    assert "GPU 0 NVIDIA H200 900 of 1,000 MiB in use" in " ".join(panel.text.split())
    (bar,) = panel.all("svg", role="img")
    assert [(rect.attrs["class"], rect.attrs["x"], rect.attrs["width"]) for rect in bar.all("rect")] == [
        ("f-clean", "0.0", "50.0"),
        ("f-flagged", "50.0", "20.0"),
        ("f-skipped", "70.0", "20.0"),
    ]
    assert {link.attrs["href"] for link in panel.all("a")} == {f"/backends/{site.backend_id}"}
    assert "left over from start 2" in panel.text
    assert "a process that is not visible from here, pid 4194305" in panel.text
    assert read(part).all("section", **{"aria-labelledby": "h-gpus"})


def test_a_gpu_that_tells_nothing_and_a_driver_in_trouble_are_sentences(site: Site, play: FakeNvml) -> None:
    play.devices = [Device("GPU-a", name="NVIDIA GB10", total=None)]
    with site.as_("reviewer") as client:
        assert "It does not tell its memory." in check_page(client.get("/backends").text).text
        play.fails = NVML_ERROR_LIB_RM_VERSION_MISMATCH
        assert "restart this machine to use its GPUs" in check_page(client.get("/backends").text).text


def test_a_bar_never_leaves_its_frame(play: FakeNvml, site: Site) -> None:
    play.devices = [Device("GPU-a", total=1_000, used=1_000, compute=[(2**22 + 1, 800), (2**22 + 2, 800)])]
    with site.shop.ctx.db.read() as s:
        (bar,) = machine.gpus(s).bars
    assert max(part.x + part.width for part in bar.parts) <= 100


def test_a_leftover_is_told_and_can_be_cleaned_by_an_operator(site: Site, starts: None) -> None:
    left = _leave(site, memory_mib=2_000, gpu_mib=33_000)
    with site.as_("operator") as client:
        page = check_page(client.get("/backends").text)
        (form,) = page.all("form", action=f"/leftovers/{left}/clean")
        assert "killed at once, with every process that it started" in form.attrs["data-confirm"]
        assert "holds 2,000 MiB of memory and 33,000 MiB of GPU memory" in " ".join(page.text.split())
        answer = client.post(form.attrs["action"], data={"csrf": csrf_of(client)})
        assert (answer.status_code, answer.headers["location"]) == (303, "/backends")
        after = client.get("/backends?part=leftovers").text
    assert "Being cleaned" in after
    assert "/clean" not in after


def test_a_reviewer_sees_a_leftover_and_no_button(site: Site, starts: None) -> None:
    left = _leave(site)
    with site.as_("reviewer") as client:
        page = check_page(client.get("/backends").text)
        assert page.all("form", action=f"/leftovers/{left}/clean") == []
        assert "An operator can clean it." in page.text
        refused = client.post(f"/leftovers/{left}/clean", data={"csrf": csrf_of(client)})
    assert refused.status_code == 403


def test_what_came_of_cleaning_is_shown(site: Site, starts: None) -> None:
    _leave(site, cleaned_at=now())
    with site.as_("operator") as client:
        page = check_page(client.get("/backends").text)
    assert page.all("section", **{"class": "notice good"})
    assert page.all("section", **{"class": "notice warn"}) == []
    assert "<img" not in page.text.replace(HOSTILE, "")


def test_without_leftovers_nothing_is_said_of_them(site: Site) -> None:
    with site.as_("operator") as client:
        assert client.get("/backends?part=leftovers").text.strip() == ""
