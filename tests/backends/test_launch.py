"""From a launch spec to a command line: exact, full names, no secret, no proxy."""

from pathlib import Path

import pytest

from inference.backends.launch.command import SHIM, LaunchCommand, build_command
from inference.backends.launch.ports import PortBlock
from inference.backends.launch.spec import LaunchSpec, cpu_dtype, is_hub_id

KEY = "k" * 48


def command(
    spec: LaunchSpec,
    ports: PortBlock = PortBlock(30_112, 30_113),  # noqa: B008  (frozen)
    devices: dict[str, str] | None = None,
    **base_env: str,
) -> LaunchCommand:
    return build_command(
        spec,
        python=Path("/engine/bin/python"),
        ports=ports,
        devices=devices,
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
        disable_cuda_graph=True,
        gpus=["GPU-11111111-aaaa", "GPU-22222222-bbbb"],
        extra_flags={"--disable-radix-cache": True, "enable_mscclpp": False, "cuda_graph_bs_decode": [1, 2]},
        startup_limit_s=600,
        drain_limit_s=5,
    )
    assert command(spec).argv == (
        *("/engine/bin/python", "-m", "sglang.launch_server", "--config", "/data/logs/backend-1/start-1.yaml"),
        *("--model-path", "/models/demo", "--context-length", "4096", "--tp-size", "2"),
        *("--mem-fraction-static", "0.85", "--chunked-prefill-size", "-1", "--dtype", "bfloat16"),
        *("--disable-cuda-graph", "--reasoning-parser", "qwen3", "--tool-call-parser", "hermes"),
        *("--cuda-graph-bs-decode", "1", "2", "--disable-radix-cache"),
        *("--host", "127.0.0.1", "--port", "30112", "--nccl-port", "30113", "--weight-version", "draftmill-1-1-abc"),
    )


def test_replicas_get_no_meeting_port_of_ours() -> None:
    argv = command(LaunchSpec(model_path="/m", dp_size=2), ports=PortBlock(30_112, None)).argv
    assert "--nccl-port" not in argv


def test_a_followers_http_server_listens_on_loopback_too() -> None:
    node = LaunchSpec(model_path="/m", tp_size=2, nnodes=2, node_rank=1, dist_init_addr="10.0.0.1:25000")
    argv = " ".join(command(node).argv)
    assert node.follower
    assert "--nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:25000" in argv
    assert "--host 127.0.0.1" in argv


def test_gpus_are_named_by_number_in_pci_order_and_an_instance_by_its_uuid() -> None:
    whole, part = "GPU-22222222-bbbb", "MIG-33333333-cccc"
    env = command(LaunchSpec(model_path="/m", gpus=[whole, part]), devices={whole: "3"}, CUDA_VISIBLE_DEVICES="0").env
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == (f"3,{part}", "PCI_BUS_ID")
    untouched = command(LaunchSpec(model_path="/m"), CUDA_VISIBLE_DEVICES="0")
    assert untouched.env["CUDA_VISIBLE_DEVICES"] == untouched.shown_env["CUDA_VISIBLE_DEVICES"] == "0"


def test_what_is_shown_of_the_environment_matters_and_is_no_secret() -> None:
    shown = command(
        LaunchSpec(model_path="/models/demo", device="cpu"),
        HF_TOKEN="hf_secret1",
        AWS_SECRET_ACCESS_KEY="secret2",
        SGLANG_API_KEY="secret3",
        HF_ENDPOINT="https://me:secret4@hub.example",
        NCCL_DEBUG="INFO",
        HOME="/root",
        HTTP_PROXY="http://u:secret5@proxy",
    ).shown_env
    assert "secret" not in str(shown)
    assert (shown["NCCL_DEBUG"], shown["HF_ENDPOINT"]) == ("INFO", "https://***@hub.example")
    assert "HOME" not in shown
    assert {"PYTHONPATH", "SGLANG_USE_CPU_ENGINE", "OMP_NUM_THREADS", "DRAFTMILL_START"} <= set(shown)


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
