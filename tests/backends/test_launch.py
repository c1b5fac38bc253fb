"""From a launch spec to a command line: exact, full names, no secret, no proxy."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from inference.backends.launch import flags
from inference.backends.launch.command import SHIM, LaunchCommand, build_command
from inference.backends.launch.ports import PortBlock
from inference.backends.launch.spec import LaunchSpec, cpu_dtype, is_hub_id

KEY = "k" * 48


def command(spec: LaunchSpec, **base_env: str) -> LaunchCommand:
    return build_command(
        spec,
        python=Path("/engine/bin/python"),
        ports=PortBlock(30_112, 30_113),
        key_config_path=Path("/data/logs/backend-1/start-1.yaml"),
        weight_version="draftmill-1-1-abc",
        api_key=KEY,
        base_env=base_env,
    )


def test_argv_is_exact_and_its_names_are_whole() -> None:
    spec = LaunchSpec(
        model_path="/models/demo",
        tp_size=2,
        context_length=4096,
        mem_fraction_static=0.85,
        dtype="bfloat16",
        reasoning_parser="qwen3",
        tool_call_parser="hermes",
        chunked_prefill_size=-1,
        extra_flags={"--disable-radix-cache": True, "enable_metrics": False, "cuda_graph_bs_decode": [1, 2]},
        startup_limit_s=600,
    )
    assert command(spec).argv == (
        *("/engine/bin/python", "-m", "sglang.launch_server", "--config", "/data/logs/backend-1/start-1.yaml"),
        *(
            "--model-path",
            "/models/demo",
            "--tp-size",
            "2",
            "--context-length",
            "4096",
            "--mem-fraction-static",
            "0.85",
        ),
        *("--chunked-prefill-size", "-1", "--dtype", "bfloat16", "--reasoning-parser", "qwen3"),
        *("--tool-call-parser", "hermes", "--cuda-graph-bs-decode", "1", "2", "--disable-radix-cache"),
        *("--host", "127.0.0.1", "--port", "30112", "--nccl-port", "30113", "--weight-version", "draftmill-1-1-abc"),
    )


def test_the_key_is_in_the_config_file_alone() -> None:
    made = command(LaunchSpec(model_path="/models/demo"))
    assert made.config_text == f'api-key: "{KEY}"\n'
    assert KEY not in " ".join([*made.argv, *made.shown, *made.env.values()])
    assert "--config" in made.argv, "the two-token form: SGLang ignores --config=FILE"


def test_a_config_file_that_sglang_would_ignore_is_refused() -> None:
    with pytest.raises(ValueError, match="yaml"):
        build_command(
            LaunchSpec(model_path="/m"),
            python=Path("p"),
            ports=PortBlock(1, 2),
            key_config_path=Path("key.conf"),
            weight_version="w",
            api_key=KEY,
        )
    with pytest.raises(ValueError, match="letters and digits"):
        build_command(
            LaunchSpec(model_path="/m"),
            python=Path("p"),
            ports=PortBlock(1, 2),
            key_config_path=Path("k.yaml"),
            weight_version="w",
            api_key="-x",
        )


def test_no_proxy_reaches_the_child_and_no_secret_of_ours() -> None:
    env = command(
        LaunchSpec(model_path="/models/demo"),
        HTTP_PROXY="http://127.0.0.1:9",
        https_proxy="http://127.0.0.1:9",
        ALL_PROXY="socks5://127.0.0.1:9",
        DRAFTMILL_ADMIN_TOKEN="secret",
        DRAFTMILL_DATABASE_URL="postgresql://u:p@h/d",
        PYTHONPATH="/somewhere",
        HF_TOKEN="kept",
        PATH="/bin",
    ).env
    assert not {name for name in env if "proxy" in name.lower()} - {"NO_PROXY", "no_proxy"}
    assert "127.0.0.1" in env["NO_PROXY"]
    assert {name for name in env if name.startswith("DRAFTMILL_")} == {"DRAFTMILL_START"}
    assert "PYTHONPATH" not in env
    assert (env["HF_TOKEN"], env["PATH"]) == ("kept", "/bin")
    assert env["PYTHONUNBUFFERED"] == "1"
    assert env["SGLANG_PYSPY_DUMP_BEFORE_CRASH"] == env["SGLANG_CUDA_COREDUMP_BEFORE_CRASH"] == "false"
    assert float(env["SGLANG_TIMEOUT_KEEP_ALIVE"]) > 5


def test_a_cpu_server_gets_all_it_needs_from_the_device_alone() -> None:
    made = command(LaunchSpec(model_path="/models/demo", device="cpu"))
    assert made.env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert made.env["PYTHONPATH"] == str(SHIM)
    assert made.env["OMP_NUM_THREADS"] == "1"
    assert made.env["HF_HUB_OFFLINE"] == "1"
    argv = " ".join(made.argv)
    assert "--device cpu" in argv
    assert "--attention-backend torch_native" in argv
    assert "--max-total-tokens 20000" in argv
    assert f"--dtype {cpu_dtype()}" in argv
    assert "--sleep-on-idle" in argv
    assert "--dtype bfloat16" in " ".join(command(LaunchSpec(model_path="/m", device="cpu", dtype="bfloat16")).argv)
    own = LaunchSpec(model_path="/m", device="cpu", max_total_tokens=9000, attention_backend="intel_amx")
    assert "--max-total-tokens 9000" in " ".join(command(own).argv)
    assert "intel_amx" in command(own).argv


def test_a_hub_model_may_use_the_hub() -> None:
    assert "HF_HUB_OFFLINE" not in command(LaunchSpec(model_path="Qwen/Qwen3-8B")).env
    assert is_hub_id("Qwen/Qwen3-8B")
    assert not any(map(is_hub_id, ("/a/b", "../b", "a/../b", "a", "./a/b", "~/x", "a/b/c")))


@pytest.mark.parametrize(
    ("launch", "told"),
    [
        ({}, "model_path"),
        ({"model_path": "/m", "modelpath": "/x"}, "modelpath"),
        ({"model_path": "--delete-ckpt-after-loading"}, "dash"),
        ({"model_path": "/m\n--x"}, "control"),
        ({"model_path": "/m", "tp_size": 0}, "tp_size"),
        ({"model_path": "/m", "served_model_name": "a:b"}, "colon"),
        ({"model_path": "/m", "attention_backend": "x --y"}, "attention_backend"),
        ({"model_path": "/m", "nnodes": 2}, "dist_init_addr"),
        ({"model_path": "/m", "nnodes": 2, "node_rank": 2, "dist_init_addr": "h:1"}, "node_rank 2 must be below"),
        ({"model_path": "/m", "nnodes": 2, "node_rank": 0, "dist_init_addr": "h:1", "dp_size": 2}, "one node only"),
        ({"model_path": "/m", "extra_flags": {"no_such": 1}}, "no_such is not in the list"),
        ({"model_path": "/m", "extra_flags": {"tp_size": 2}}, "launch.tp_size"),
        ({"model_path": "/m", "extra_flags": {"page_size": "big"}}, "a whole number"),
        ({"model_path": "/m", "extra_flags": {"page_size": True}}, "a whole number"),
        ({"model_path": "/m", "extra_flags": {"load_format": "x;rm"}}, "one plain word"),
        ({"model_path": "/m", "extra_flags": {"enable_metrics": "yes"}}, "true or false"),
        ({"model_path": "/m", "extra_flags": {"page_size": 1, "--page-size": 2}}, "given twice"),
    ],
)
def test_a_bad_launch_is_refused_by_name(launch: dict, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        LaunchSpec(**launch)
    assert told in str(refused.value)


@pytest.mark.parametrize("name", sorted(flags.REFUSED))
def test_a_flag_that_runs_code_or_touches_files_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ValidationError) as refused:
        LaunchSpec(model_path="/m", extra_flags={name.replace("_", "-"): "x"})
    assert flags.REFUSED[name] in str(refused.value)


def test_no_flag_is_both_allowed_and_refused_or_a_field() -> None:
    assert not set(flags.ALLOWED) & set(flags.REFUSED)
    assert not set(flags.ALLOWED) & set(LaunchSpec.model_fields)
    assert all(re.fullmatch(r"[a-z0-9_]+", name) for name in flags.ALLOWED)
