"""The form of a launch: every field of it, faults at their fields, what was typed kept; a backend copied, and changed."""

import html
import shlex
from typing import Any

import pytest

from inference.backends import service
from inference.backends.host.gpus import Gpu, Survey
from inference.backends.launch.fields import FIELDS, GROUPS
from inference.backends.launch.spec import LaunchSpec
from tests.web.reading import Element, check_page
from tests.web.site import BASE, Site, csrf_of
from web import launchform
from web.forms import Fields

HERE = Survey(
    (Gpu(0, "GPU-11111111", "NVIDIA H200", 143_771, 3_771), Gpu(1, "GPU-22222222", "NVIDIA H200", None, None))
)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs in this machine."""
    monkeypatch.setattr(launchform, "survey", lambda _age: HERE)
    monkeypatch.setattr("inference.backends.launch.checks.survey", lambda _age: HERE)


def model(site: Site) -> str:
    return str(site.shop.ctx.settings.model_roots[0] / "tiny")


def post(site: Site, path: str, *items: tuple[str, str], **data: str) -> Any:
    with site.as_("operator") as client:
        form: dict[str, Any] = {"csrf": csrf_of(client), **data}
        for name, value in items:
            form.setdefault(name, []).append(value)
        return client.post(path, data=form)


def look(site: Site, path: str) -> Element:
    with site.as_("operator") as client:
        answer = client.get(path)
        assert answer.status_code == 200
        return check_page(answer.text)


def stored(site: Site, backend_id: int) -> Any:
    with site.shop.ctx.db.read() as session:
        return service.get_backend(session, backend_id)


def made(answer: Any) -> int:
    assert answer.status_code == 303, answer.text
    return int(answer.headers["location"].rsplit("/", 1)[1])


def test_every_field_is_in_the_form_with_its_default_and_its_sentence(site: Site, gpus: None) -> None:
    page = look(site, "/backends/new")
    for name, field in FIELDS.items():
        inputs = [item for tag in ("input", "select", "textarea") for item in page.all(tag, name=f"launch.{name}")]
        assert inputs, name
        assert html.unescape(field.about) in page.text
        if field.kind in {"path", "text", "number", "amount", "decimal"} and field.default:
            assert inputs[0].attrs["placeholder"] == field.default
        if field.kind == "choice":
            options = [option.text for option in inputs[0].all("option")]
            assert options == [field.default, *field.choices]
    assert {legend.text for legend in page.all("legend")} >= {group.title for group in GROUPS}


def test_gpus_are_ticked_by_name_and_kept_by_uuid(own_site: Site, gpus: None) -> None:
    page = look(own_site, "/backends/new")
    labels = [label.text for label in page.all("label", class_="check") if label.all("input", name="launch.gpus")]
    assert [" ".join(label.split()) for label in labels] == [
        "GPU 0 NVIDIA H200, 137 of 140 GiB free",
        "GPU 1 NVIDIA H200",
    ]
    answer = post(
        own_site,
        "/backends/new",
        ("launch.gpus", "GPU-11111111"),
        ("launch.gpus", "GPU-22222222"),
        kind="managed",
        name="two",
        **{"launch.model_path": model(own_site), "launch.tp_size": "2"},
    )
    backend_id = made(answer)
    assert stored(own_site, backend_id).launch["gpus"] == ["GPU-11111111", "GPU-22222222"]
    ticked = look(own_site, f"/backends/{backend_id}/edit").all("input", name="launch.gpus")
    assert [("checked" in box.attrs) for box in ticked] == [True, True]


def test_no_gpus_no_boxes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchform, "survey", lambda _age: Survey(notes=("No driver.",)))
    assert not look(site, "/backends/new").all("input", name="launch.gpus")


def test_faults_are_told_at_their_fields_and_what_was_typed_is_kept(site: Site) -> None:
    typed = {
        "name": "x <b>",
        "launch.model_path": model(site),
        "launch.nnodes": "2",
        "launch.tp_size": "2",
        "launch.enable_metrics": "1",
        "launch.kv_cache_dtype": "fp8_e4m3",
        "launch.extra_flags": "--page-size 64\n--schedule-policy lpm",
    }
    answer = post(site, "/backends/new", kind="managed", **typed)
    assert answer.status_code == 422
    page = check_page(answer.text)
    for name in ("node_rank", "dist_init_addr"):
        (field,) = page.all("input", id=f"f-launch.{name}")
        assert field.attrs["aria-invalid"] == "true"
        assert page.all("div", id=f"h-launch.{name}")[0].all("p", class_="wrong")
    assert page.all("input", id="f-launch.nnodes")[0].attrs["value"] == "2"
    assert "checked" in page.all("input", id="f-launch.enable_metrics")[0].attrs
    assert page.all("option", value="fp8_e4m3")[0].attrs.keys() >= {"selected"}
    assert page.all("textarea", id="f-launch.extra_flags")[0].text.strip() == typed["launch.extra_flags"]
    nodes = [fold for fold in page.all("details", class_="group") if "Several nodes" in fold.text]
    assert "open" in nodes[0].attrs


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--no-such 1", "no_such is not in the list"),
        ("page-size 64", "belongs to no flag"),
        ("--port 80", "Draftmill sets it itself"),
        ("--download-dir /x", "DRAFTMILL_ALLOWED_FLAGS"),
        ('{"page_size": "big"}', "a whole number"),
    ],
)
def test_a_bad_flag_is_told_at_the_flags(site: Site, flags: str, told: str) -> None:
    for do in ("", "preview"):
        answer = post(
            site,
            "/backends/new",
            kind="managed",
            name="x",
            do=do,
            **{"launch.model_path": model(site), "launch.extra_flags": flags},
        )
        assert answer.status_code == 422
        assert told in check_page(answer.text).all("div", id="h-launch.extra_flags")[0].text
        assert "Value error" not in answer.text


def test_the_command_is_shown_without_making_anything(site: Site) -> None:
    answer = post(
        site,
        "/backends/new",
        kind="managed",
        do="preview",
        **{
            "launch.model_path": model(site),
            "launch.tp_size": "2",
            "launch.nnodes": "2",
            "launch.node_rank": "0",
            "launch.dist_init_addr": "10.0.0.1:25000",
            "launch.extra_flags": "--page-size 64",
        },
    )
    assert answer.status_code == 200
    page = check_page(answer.text)
    words = shlex.split(page.all("pre", id="shell")[0].text.replace("\\\n", ""))
    assert "PYTHONUNBUFFERED=1" in words
    assert words[words.index("--page-size") + 1] == "64"
    assert words[words.index("--port") + 1] == "<port>"
    call = shlex.split(page.all("pre", id="call-1")[0].text)
    assert '"node_rank": 1' in call[call.index("-d") + 1]
    assert call[-1] == "$NODE_1/api/v1/backends"
    assert page.all("input", id="f-launch.nnodes")[0].attrs["value"] == "2"


def test_a_backend_is_copied_whole_but_for_its_key(own_site: Site) -> None:
    launch = {
        "launch.model_path": model(own_site),
        "launch.mem_fraction_static": "0.85",
        "launch.disable_cuda_graph": "1",
        "launch.extra_flags": "--page-size 64",
    }
    backend_id = made(post(own_site, "/backends/new", kind="managed", name="one", **launch))
    page = look(own_site, f"/backends/new?like={backend_id}")
    assert page.all("input", id="f-name")[0].attrs["value"] == "one copy"
    assert page.all("input", id="f-launch.mem_fraction_static")[0].attrs["value"] == "0.85"
    assert "checked" in page.all("input", id="f-launch.disable_cuda_graph")[0].attrs
    assert page.all("textarea", id="f-launch.extra_flags")[0].text.strip() == "--page-size 64"
    far = made(post(own_site, "/backends/new", kind="attached", name="far", url=f"{BASE}:9", api_key="s3cret"))
    copy = look(own_site, f"/backends/new?like={far}")
    assert copy.all("input", id="f-url")[0].attrs["value"] == f"{BASE}:9"
    assert "s3cret" not in str(copy)


def test_a_managed_backend_is_changed_at_rest(own_site: Site) -> None:
    backend_id = made(
        post(own_site, "/backends/new", kind="managed", name="one", **{"launch.model_path": model(own_site)})
    )
    path = f"/backends/{backend_id}/edit"
    seen = str(look(own_site, path).all("input", name="seen")[0].attrs["value"])
    bad = post(own_site, path, seen=seen, name="one", **{"launch.model_path": model(own_site), "launch.tp_size": "no"})
    assert bad.status_code == 422
    assert check_page(bad.text).all("input", id="f-launch.tp_size")[0].attrs["value"] == "no"
    good = {"launch.model_path": model(own_site), "launch.drain_limit_s": "5"}
    assert post(own_site, path, seen=seen, name="two", **good).headers["location"] == f"/backends/{backend_id}"
    row = stored(own_site, backend_id)
    assert (row.name, row.launch) == ("two", {"model_path": model(own_site), "drain_limit_s": 5.0})
    stale = post(own_site, path, seen=seen, name="three", **good)
    assert stale.status_code == 409
    assert "meanwhile" in stale.text
    shown = post(own_site, path, seen=seen, name="two", do="preview", **good)
    assert "--model-path" in check_page(shown.text).all("pre", id="shell")[0].text


def test_a_backend_shows_its_command_before_its_first_start_and_leads_to_its_change(own_site: Site) -> None:
    launch = {"launch.model_path": model(own_site), "launch.tp_size": "2"}
    backend_id = made(post(own_site, "/backends/new", kind="managed", name="one", **launch))
    page = look(own_site, f"/backends/{backend_id}")
    assert "--tp-size 2" in page.all("pre", id="command")[0].text
    assert "of a first start" in page.text
    links = {link.attrs["href"] for link in page.all("a")}
    assert {f"/backends/{backend_id}/edit", f"/backends/new?like={backend_id}"} <= links
    with own_site.shop.ctx.db.write() as session:
        backend = service.get_backend(session, backend_id)
        backend.launch = {"model_path": "/gone", "tp_size": 0}
    assert not look(own_site, f"/backends/{backend_id}").all("pre", id="command"), (
        "a launch that cannot work has no command"
    )


def test_an_attached_backend_keeps_its_key_until_it_is_told_otherwise(own_site: Site) -> None:
    far = made(post(own_site, "/backends/new", kind="attached", name="far", url=f"{BASE}:9", api_key="s3cret"))
    with own_site.shop.ctx.db.write() as session:
        backend = service.get_backend(session, far)
        backend.desired_state = backend.observed_state = "stopped"

    def change(**fields: str) -> Any:
        page = look(own_site, f"/backends/{far}/edit")
        assert "s3cret" not in str(page)
        seen = str(page.all("input", name="seen")[0].attrs["value"])
        assert post(own_site, f"/backends/{far}/edit", seen=seen, **fields).status_code == 303
        return stored(own_site, far)

    assert change(name="near", url=f"{BASE}:9").api_key == "s3cret"
    assert change(name="near", url=f"{BASE}:9", forget_key="1").api_key is None
    assert change(name="near", url=f"{BASE}:8", api_key="other").api_key == "other"
    assert change(name="near", url=f"{BASE}:7").api_key is None, "a key is for the server it was given for"


def test_a_running_backend_is_renamed_and_no_more(own_site: Site) -> None:
    backend_id = own_site.backend_id
    page = look(own_site, f"/backends/{backend_id}/edit")
    assert not page.all("input", name="url")
    assert "Stop it" in page.text
    seen = str(page.all("input", name="seen")[0].attrs["value"])
    assert post(own_site, f"/backends/{backend_id}/edit", seen=seen, name="renamed").status_code == 303
    assert stored(own_site, backend_id).name == "renamed"


def test_what_a_form_holds_is_what_a_launch_holds() -> None:
    launch = {
        "model_path": "/m",
        "gpus": ["GPU-11111111", "GPU-22222222"],
        "tp_size": 2,
        "mem_fraction_static": 0.87654321,
        "startup_limit_s": 1234567.5,
        "drain_limit_s": 90.0,
        "trust_remote_code": True,
        "extra_flags": {"page_size": 64, "cuda_graph_bs_decode": [1, 2], "disable_radix_cache": False},
    }
    assert dict(launchform.form_of(launch))["launch.drain_limit_s"] == "90"
    read = launchform.read_launch(Fields(launchform.form_of(launch)))
    assert LaunchSpec.model_validate(read) == LaunchSpec.model_validate(launch)
    broken = {"model_path": "/m", "tp_size": 0, "extra_flags": {"gone": 1}}
    assert dict(launchform.form_of(broken)) == {
        "launch.model_path": "/m",
        "launch.tp_size": "0",
        "launch.extra_flags": "--gone 1",
    }


def test_the_flags_are_listed_with_their_policy(site: Site) -> None:
    text = look(site, "/backends/flags").text
    assert "--page-size" in text
    assert "not allowed" in text
    assert "it deletes the checkpoint" in text
