"""A stand-in for the interpreter that has sglang: a real child process that behaves, or misbehaves, as SGLang's does.

Installed as an executable file (see `install`), it stands where `python -m sglang.launch_server …` would: it prints
SGLang-like phases, opens its port, answers /ready, /health, /model_info, /server_info and /generate, and drains on SIGTERM.
A JSON file beside it says how to misbehave; it is read at each start, and again where a behaviour may change while it runs.
Standard library only, so that it is up in a tenth of a second.

Keys of the JSON file, at the start:
    exit            end with this code after printing `say`
    signal          end by this signal after printing `say`
    say             lines to print first
    asks            ask a question on stdin, and give up where nobody answers
    child           fork a child that ignores SIGTERM and, if "stays", outlives its parent
    sole            path: `<path>-<log folder>` is held by the whole tree while any of it lives; who finds it held says so in
                    `….overlap`
    flood           lines printed before the port opens
    load_s          seconds of "loading weights"
    hang_at         stand still for ever at: start, init, loading, warm_up (the port is not open yet)
    hang_saying     lines printed before it stands still
    steal_port      behave as if another process took the port: errno 98, then hang
    rival           path: start another server on the port, write its pid there, and end as SGLang does: errno 98, the
                    ready line (its warm-up spoke to the other one), exit code 3
    stranger        answer with another weight version
    warm_s          seconds in which /health is 503
    ignore_term     ignore SIGTERM

While it runs; each is a path, and holds while that file exists:
    unhealthy       /health and /ready are 503 (with `ready_is_blind`, /ready is not: it cannot see a scheduler that hangs)
    hold            requests for more than one token are not answered
    stuck           no request is answered at all
    loads           the figures that /v1/loads shows are in it
    dies            the process ends: {"say": [lines], "signal": n} or {"exit": n}, with `freeze_s` seconds before, in which
                    connections are accepted and nothing is answered
And `absent`: paths that it does not have (/ready, /v1/loads).
"""

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def install(folder: Path, **behaviour: object) -> Path:
    """Put an executable named `python` into `folder`, with its behaviour beside it; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / "python"
    executable.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        if [ "$1" = "-I" ]; then exit 0; fi
        exec "{sys.executable}" -S "{Path(__file__).resolve()}" "{folder / "behaviour.json"}" "$@"
        """)
    )
    executable.chmod(0o755)
    behave(folder, **behaviour)
    return executable


def behave(folder: Path, **behaviour: object) -> None:
    """Change how the next start behaves."""
    (folder / "behaviour.json").write_text(json.dumps(behaviour))


def _hold(path: str) -> None:
    """Children inherit the open file, and with it the lock: it is free again only when the last of the tree is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(descriptor, True)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with Path(f"{path}.overlap").open("a") as file:
            file.write(f"{os.getpid()} found another\n")


def _fork_child(stays: bool) -> None:
    if os.fork() != 0:
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent = os.getppid()
    while stays or os.getppid() == parent:
        time.sleep(0.05)
    os._exit(0)


def _end(how: dict) -> None:
    if "signal" in how:
        signal.signal(how["signal"], signal.SIG_DFL) if how["signal"] != signal.SIGKILL else None
        os.kill(os.getpid(), how["signal"])
    os._exit(how.get("exit", 1))


def _stand_still(behaviour: dict, here: str) -> None:
    if behaviour.get("hang_at") != here:
        return
    for line in behaviour.get("hang_saying", []):
        sys.stderr.write(line + "\n")
    sys.stderr.flush()
    while True:
        time.sleep(0.1)


def _ask() -> None:
    """The question of a checkpoint that brings code; stdin must be empty, not something that may never answer."""
    try:
        input("Do you wish to run the custom code? [y/N] ")
    except EOFError:
        sys.stderr.write("Please pass the argument `trust_remote_code=True` to allow custom code to be run.\n")
        sys.exit(1)


def _load(behaviour: dict, say) -> None:
    for line in behaviour.get("say", []):
        say(line)
    if behaviour.get("asks"):
        _ask()
    if "signal" in behaviour or "exit" in behaviour:
        sys.stderr.flush()
        _end(behaviour)
    for number in range(behaviour.get("flood", 0)):
        sys.stdout.write(f"flood {number} " + "x" * 90 + "\n")
    sys.stdout.flush()
    _stand_still(behaviour, "start")
    say("Init parallel begin.")
    _stand_still(behaviour, "init")
    say("Load weight begin. avail mem=20.93 GB")
    sys.stderr.write("Multi-thread loading shards:   0% Completed | 0/2 [00:00<?, ?it/s]\r")
    sys.stderr.flush()
    _stand_still(behaviour, "loading")
    while behaviour.get("hang_loading"):
        time.sleep(0.1)
    time.sleep(behaviour.get("load_s", 0.0))
    sys.stderr.write("Multi-thread loading shards: 100% Completed | 2/2 [00:00<00:00, 9.00it/s]\n")
    say("Load weight end. elapsed=0.03 s, type=Qwen3ForCausalLM, avail mem=20.93 GB, mem usage=0.00 GB.")
    say("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 20000, K size: 0.00 GB, V size: 0.00 GB")
    say("max_total_num_tokens=20000, chunked_prefill_size=4096, max_running_requests=2500, context_len=4096")
    _stand_still(behaviour, "warm_up")


def _lose_port(behaviour: dict, arguments: argparse.Namespace, say) -> None:
    address = (arguments.host, arguments.port)
    taken = f"ERROR:    [Errno 98] error while attempting to bind on address {address}: address already in use"
    if behaviour.get("steal_port"):
        say(taken)
        while True:
            time.sleep(0.1)
    if behaviour.get("rival"):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTMILL")}
        command = [sys.executable, "-S", __file__, "--rival", arguments.host, str(arguments.port)]
        other = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.PIPE)
        assert other.stdout is not None
        other.stdout.readline()  # it listens
        Path(behaviour["rival"]).write_text(str(other.pid))
        say(taken)
        say("The server is fired up and ready to roll!")
        os._exit(3)


def _be_rival(host: str, port: int) -> None:
    """Another server on the port: it answers, but not with our key nor with our weight version."""
    from tests.support.fake_launcher_http import Server

    server = Server((host, port))
    server.warm, server.version = True, "somebody-else"
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    server.serve_forever()


def _watch_for_end(behaviour: dict, server, say) -> None:
    while not server.is_set("dies"):
        time.sleep(0.02)
    how = json.loads(Path(behaviour["dies"]).read_text())
    for line in how.get("say", []):
        say(line)
    server.frozen = "freeze_s" in how
    time.sleep(how.get("freeze_s", 0.0))
    _end(how)


def main() -> None:
    sys.path.insert(0, str(ROOT))
    if sys.argv[1] == "--rival":
        _be_rival(sys.argv[2], int(sys.argv[3]))
        return
    from tests.support.fake_launcher_http import Server, say

    behaviour = json.loads(Path(sys.argv[1]).read_text())
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("config", "model-path", "weight-version", "host"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--port", type=int)
    arguments, _ = parser.parse_known_args(sys.argv[2:])
    key = Path(arguments.config).read_text().split('"')[1]
    say(f"server_args={{'model_path': '{arguments.model_path}', 'api_key': '{key}', 'admin_api_key': None}}")
    if "sole" in behaviour:
        _hold(f"{behaviour['sole']}-{Path.cwd().name}")  # the log folder: one for each backend
    if "child" in behaviour:
        _fork_child(behaviour["child"] == "stays")
    term = threading.Event()
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour.get("ignore_term") else signal.SIG_DFL)
    _load(behaviour, say)
    _lose_port(behaviour, arguments, say)
    Server.behaviour = behaviour
    server = Server((arguments.host, arguments.port))
    server.key, server.model = key, arguments.model_path
    server.version = "somebody-else" if behaviour.get("stranger") else arguments.weight_version
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if "dies" in behaviour:
        threading.Thread(target=_watch_for_end, args=(behaviour, server, say), daemon=True).start()
    say(f"INFO:     Uvicorn running on http://{arguments.host}:{arguments.port} (Press CTRL+C to quit)")
    if not behaviour.get("ignore_term"):
        signal.signal(signal.SIGTERM, lambda *_: term.set())
    time.sleep(behaviour.get("warm_s", 0.0))
    server.warm = True
    say("The server is fired up and ready to roll!")
    term.wait()
    say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    server.draining = True
    while server.in_flight:  # without a limit, as SGLang does
        say(f"Gracefully exiting... Remaining number of requests {len(server.in_flight)}.")
        time.sleep(0.1)
    say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    sys.exit(0)


if __name__ == "__main__":
    main()
