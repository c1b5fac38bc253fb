"""What a launch may hold: bounds and rules told at their field, flags by their policy, and old launches read as ever."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from db.errors import Invalid
from inference.backends.host import gpus
from inference.backends.launch import choices, flags, former
from inference.backends.launch.checks import check_spec, visible_devices
from inference.backends.launch.fields import FIELDS, GROUPS
from inference.backends.launch.preview import preview
from inference.backends.launch.spec import OURS, LaunchSpec
from inference.backends.launch.stored import as_started, to_start
from inference.settings import Settings

TWO_NODES = {"nnodes": 2, "node_rank": 0, "dist_init_addr": "h:25000", "tp_size": 2}


def refused(**launch: Any) -> dict[str, str]:
    """Field → sentence, of a launch that is refused."""
    with pytest.raises(ValidationError) as error:
        LaunchSpec(**{"model_path": "/m", **launch})
    return {".".join(map(str, item["loc"])): item["msg"] for item in error.value.errors()}


@pytest.mark.parametrize(
    ("launch", "field", "told"),
    [
        ({"model_path": None}, "model_path", "string"),
        ({"modelpath": "/x"}, "modelpath", "not permitted"),
        ({"model_path": "--delete-ckpt-after-loading"}, "model_path", "dash"),
        ({"model_path": "/m\n--x"}, "model_path", "control"),
        ({"served_model_name": "a:b"}, "served_model_name", "colon"),
        ({"tp_size": 0}, "tp_size", "greater than or equal to 1"),
        ({"context_length": "32q"}, "context_length", "integer"),
        ({"attention_backend": "x --y"}, "attention_backend", "has no 'x --y'"),
        ({"quantization": "fp9"}, "quantization", "did you mean fp8?"),
        ({"reasoning_parser": "qwen"}, "reasoning_parser", "qwen3"),
        ({"gpus": ["0"]}, "gpus.0", "pattern"),
        ({"nnodes": 2}, "dist_init_addr", "host:port of node 0"),
        ({**TWO_NODES, "node_rank": 2}, "node_rank", "node_rank 2 must be below"),
        ({**TWO_NODES, "dist_init_addr": "h"}, "dist_init_addr", "must be host:port"),
        ({**TWO_NODES, "dist_init_addr": "h:65530", "attn_dp_size": 2}, "dist_init_addr", "up to 65522"),
        ({**TWO_NODES, "dp_size": 2}, "dp_size", "one node only"),
        ({**TWO_NODES, "tp_size": 3}, "nnodes", "must divide"),
        ({"tp_size": 4, "attn_dp_size": 3}, "attn_dp_size", "must divide tp_size"),
        ({"tp_size": 4, "ep_size": 8}, "ep_size", "must divide tp_size"),
        ({"tp_size": 2, "attn_dp_size": 2, "dp_size": 2}, "dp_size", "exclude each other"),
        ({"chunked_prefill_size": 100, "extra_flags": {"page_size": 64}}, "chunked_prefill_size", "page_size"),
        ({"gpus": ["GPU-12345678"], "tp_size": 2}, "gpus", "needs 2 GPUs"),
        ({"gpus": ["GPU-12345678", "GPU-12345678"]}, "gpus", "twice"),
        ({"gpus": ["GPU-12345678"], "device": "cpu"}, "gpus", "device is cpu"),
        ({"disable_cuda_graph": True, "cuda_graph_max_bs_decode": 8}, "cuda_graph_max_bs_decode", "CUDA graphs"),
        ({"enable_deterministic_inference": True, "device": "cpu"}, "enable_deterministic_inference", "CPU"),
        ({"enable_deterministic_inference": True, "attention_backend": "aiter"}, "attention_backend", "fa3"),
        ({"speculative_num_steps": 3}, "speculative_num_steps", "needs speculative_algorithm"),
        ({"speculative_algorithm": "UNO"}, "speculative_algorithm", "has no 'UNO'"),
        ({"speculative_algorithm": "EAGLE", "speculative_eagle_topk": 4}, "speculative_eagle_topk", "num_steps"),
        ({"speculative_algorithm": "EAGLE", "speculative_num_steps": 3}, "speculative_eagle_topk", "each step"),
        ({"speculative_algorithm": "EAGLE", "pp_size": 2}, "pp_size", "speculative"),
        ({"speculative_algorithm": "DFLASH"}, "speculative_draft_model_path", "needs a draft model"),
        (
            {"speculative_algorithm": "NGRAM", "speculative_draft_model_path": "a/b"},
            "speculative_draft_model_path",
            "no draft model",
        ),
        ({"speculative_algorithm": "NGRAM", "tp_size": 2, "attn_dp_size": 2}, "attn_dp_size", "NGRAM"),
        ({"startup_limit_s": 0}, "startup_limit_s", "greater than 0"),
        ({"drain_limit_s": float("inf")}, "drain_limit_s", "finite"),
    ],
)
def test_a_bad_launch_is_refused_at_its_field(launch: dict[str, Any], field: str, told: str) -> None:
    assert told in refused(**launch)[field]


def test_the_three_numbers_of_a_draft_agree() -> None:
    eagle = {"speculative_algorithm": "eagle", "speculative_num_steps": 3, "speculative_eagle_topk": 1}
    assert "3 + 1" not in str(LaunchSpec(model_path="/m", **eagle, speculative_num_draft_tokens=4))
    assert "= 4" in refused(**eagle, speculative_num_draft_tokens=8)["speculative_num_draft_tokens"]
    assert "needs" in refused(**{**eagle, "speculative_eagle_topk": 2})["speculative_num_draft_tokens"]
    assert LaunchSpec(model_path="/m", speculative_algorithm="nextn").speculative_algorithm == "NEXTN"


def test_every_broken_rule_is_told_at_once() -> None:
    assert set(refused(nnodes=2, tp_size=3)) == {"node_rank", "dist_init_addr", "nnodes"}


@pytest.mark.parametrize(
    ("written", "tokens"), [("32k", 32_000), ("32Ki", 32_768), ("25.6k", 25_600), ("1M", 1_000_000), ("4096", 4096)]
)
def test_a_context_length_is_read_as_sglang_reads_it(written: str, tokens: int) -> None:
    assert LaunchSpec(model_path="/m", context_length=written).context_length == tokens


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"no_such": 1}, "no_such is not in the list"),
        ({"tp_size": 2}, "launch.tp_size"),
        ({"page_size": "big"}, "a whole number"),
        ({"page_size": True}, "a whole number"),
        ({"cuda_graph_bs_decode": [1, "x"]}, "a list of whole numbers"),
        ({"custom_weight_loader": "one"}, "a list of texts"),
        ({"crash_dump_folder": "-x"}, "a text"),
        ({"radix_eviction_policy": "x;rm"}, "one plain word"),
        ({"enable_mscclpp": "yes"}, "true or false"),
        ({"page_size": 1, "--page-size": 2}, "given twice"),
    ],
)
def test_a_bad_flag_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    assert told in refused(extra_flags=given)["extra_flags"]


@pytest.mark.parametrize("name", sorted(flags.NEVER))
def test_a_flag_that_would_lose_the_server_or_its_data_is_never_passed_on(name: str) -> None:
    assert flags.NEVER[name] in refused(extra_flags={name.replace("_", "-"): "x"})["extra_flags"]


GUARDED_VALUES: dict[str, flags.FlagValue] = {
    "switch": True,
    "int": 1,
    "word": "file",
    "text": "/var/dumps",
    "texts": ["pkg.load"],
}


@pytest.mark.parametrize("name", sorted(flags.GUARDED))
def test_a_guarded_flag_passes_only_where_the_operator_names_it(settings: Settings, name: str) -> None:
    guarded = flags.GUARDED[name]
    spec = LaunchSpec(model_path="a/b", extra_flags={name: GUARDED_VALUES[guarded.kind]})
    with pytest.raises(Invalid) as error:
        check_spec(settings, spec)
    assert error.value.code == "flag_not_allowed"
    assert error.value.field == "launch.extra_flags"
    assert guarded.reason in error.value.message
    assert "DRAFTMILL_ALLOWED_FLAGS" in error.value.message
    allowing = settings.model_copy(update={"allowed_flags": ["--" + name.replace("_", "-")]})
    assert check_spec(allowing, spec).extra_flags == spec.extra_flags


def test_a_load_format_that_writes_or_runs_a_plug_in_is_guarded_too(settings: Settings) -> None:
    for name in choices.LOAD_FORMATS:
        spec = LaunchSpec(model_path="a/b", load_format=name)
        if name in choices.UNGUARDED_FORMATS:
            check_spec(settings, spec)
            continue
        with pytest.raises(Invalid, match="load_format") as error:
            check_spec(settings, spec)
        assert error.value.field == "launch.load_format"
        check_spec(settings.model_copy(update={"allowed_flags": ["load_format"]}), spec)


def test_a_draft_models_load_format_is_guarded_as_the_models_own_is(settings: Settings) -> None:
    name = "speculative_draft_load_format"
    for value in choices.LOAD_FORMATS:
        spec = LaunchSpec(model_path="a/b", extra_flags={name: value})
        if value in choices.UNGUARDED_FORMATS:
            check_spec(settings, spec)
            continue
        with pytest.raises(Invalid, match=name) as error:
            check_spec(settings, spec)
        assert (error.value.code, error.value.field) == ("flag_not_allowed", "launch.extra_flags")
        check_spec(settings.model_copy(update={"allowed_flags": [name]}), spec)


def test_every_flag_has_one_policy() -> None:
    policies = [
        set(flags.ALLOWED),
        set(flags.GUARDED),
        set(flags.NEVER),
        set(LaunchSpec.model_fields) - {"trust_remote_code"},
    ]
    assert sum(map(len, policies)) == len(set().union(*policies))
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for names in policies for name in names)
    assert {*flags.ALLOWED.values(), *(item.kind for item in flags.GUARDED.values())} <= set(flags.KIND_WORDS)


def test_every_field_is_described_in_the_order_of_its_group() -> None:
    assert set(FIELDS) == set(LaunchSpec.model_fields)
    assert {field.group for field in FIELDS.values()} == {group.key for group in GROUPS}
    for field in FIELDS.values():
        assert field.label
        assert field.about.endswith((".", ";"))
        assert field.default or field.name == "model_path"
        assert bool(field.choices) == (field.kind == "choice")
    properties = LaunchSpec.model_json_schema()["properties"]
    assert all(properties[name]["description"].startswith(field.about) for name, field in FIELDS.items())


def test_each_choice_that_is_offered_is_taken() -> None:
    for field in FIELDS.values():
        for choice in field.choices:
            extra = {"speculative_draft_model_path": "a/b"} if choice in {"DFLASH", "STANDALONE"} else {}
            assert getattr(LaunchSpec(model_path="/m", **{field.name: choice}, **extra), field.name) == choice


FORMER = [
    ({"tp_size": 2, "extra_flags": {"pp_size": 2}}, {"tp_size": 2, "pp_size": 2}),
    (
        {"extra_flags": {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "a/b", "page_size": 16}},
        {"speculative_algorithm": "EAGLE3", "speculative_draft_model_path": "a/b", "extra_flags": {"page_size": 16}},
    ),
    ({"extra_flags": {"--enable-metrics": True, "disable_cuda_graph": False}}, {"enable_metrics": True}),
    ({"tp_size": 4, "dp_size": 2, "extra_flags": {"enable_dp_attention": True}}, {"tp_size": 4, "attn_dp_size": 2}),
    ({"dp_size": 2, "extra_flags": {"enable_dp_attention": False}}, {"dp_size": 2}),
    ({"extra_flags": {"load_format": "dummy", "weight_loader_disable_mmap": True}},
     {"load_format": "dummy", "weight_loader_disable_mmap": True}),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "new"), FORMER)
def test_a_launch_from_before_a_flag_was_a_field_is_read_as_ever(stored: dict[str, Any], new: dict[str, Any]) -> None:
    read = LaunchSpec.model_validate({"model_path": "/m", **json.loads(json.dumps(stored))})
    assert read == LaunchSpec(model_path="/m", **new)
    assert LaunchSpec.model_validate(read.model_dump(mode="json", exclude_defaults=True)) == read


def test_a_moved_flag_that_contradicts_its_field_is_refused() -> None:
    assert "given twice" in str(refused(pp_size=1, extra_flags={"pp_size": 2}))
    assert set(LaunchSpec.model_fields) - OURS >= former.MOVED


def test_a_stored_launch_that_a_rule_of_today_refuses_is_told_at_a_start_and_a_fact_where_it_runs() -> None:
    stored = {"model_path": "/m", "attention_backend": "of_a_plug_in", "drain_limit_s": 7.0, "gone": 1}
    with pytest.raises(Invalid) as error:
        to_start(stored)
    assert error.value.code == "launch_outdated"
    assert error.value.field == "launch.attention_backend"
    running = as_started(stored)
    assert (running.model_path, running.attention_backend, running.drain_limit_s) == ("/m", "of_a_plug_in", 7.0)
    assert (running.startup_limit_s, running.follower) == (None, False)
    assert as_started({"model_path": "/m", "extra_flags": {"pp_size": 2}}).pp_size == 2


def test_gpus_that_are_not_here_are_refused_with_those_that_are(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = (
        gpus.Gpu(3, "GPU-12345678", "NVIDIA H200", 143_771, 1024),
        gpus.Gpu(4, "MIG-12345678", "NVIDIA H200 MIG", 17_000, 0, instance=0),
    )
    monkeypatch.setattr("inference.backends.launch.checks.survey", lambda _age: gpus.Survey(here))
    assert visible_devices(["MIG-12345678", "GPU-12345678"]) == {"GPU-12345678": "3", "MIG-12345678": "MIG-12345678"}
    with pytest.raises(Invalid) as error:
        check_spec(settings, LaunchSpec(model_path="a/b", gpus=["GPU-99999999"]))
    assert (error.value.code, error.value.field) == ("no_such_gpu", "launch.gpus")
    assert "GPU 3 GPU-12345678" in error.value.message
    monkeypatch.setattr("inference.backends.launch.checks.survey", lambda _age: gpus.Survey(notes=("No driver.",)))
    with pytest.raises(Invalid, match=r"No driver\."):
        visible_devices(["GPU-12345678"])


def test_a_draft_model_is_held_to_the_model_roots(settings: Settings, tmp_path: Path) -> None:
    spec = LaunchSpec(model_path="a/b", speculative_algorithm="EAGLE3", speculative_draft_model_path="/etc")
    with pytest.raises(Invalid) as error:
        check_spec(settings, spec)
    assert error.value.field == "launch.speculative_draft_model_path"


def test_a_command_is_shown_before_any_start_and_holds_no_secret(settings: Settings) -> None:
    spec = LaunchSpec(model_path="a/b", device="cpu", served_model_name="it's mine", extra_flags={"page_size": 4})
    seen = preview(settings, spec, {"HF_TOKEN": "hf_secret", "PATH": "/bin", "HTTP_PROXY": "http://p"})
    assert seen.command[1:5] == ("-m", "sglang.launch_server", "--config", "<key file>.yaml")
    assert seen.command[seen.command.index("--port") + 1] == "<port>"
    assert seen.environment["SGLANG_USE_CPU_ENGINE"] == "1"
    assert "hf_secret" not in str(seen)
    assert seen.shell.startswith("DRAFTMILL_START='<marker of the start>' \\\n  ")
    words = shlex.split(seen.shell.replace("\\\n", ""))
    assert [word for word in words if word in seen.command] == list(seen.command)
    assert "--served-model-name" in words
    assert words[words.index("--served-model-name") + 1] == "it's mine"
    with pytest.raises(Invalid):
        preview(settings, LaunchSpec(model_path="/nowhere"))
