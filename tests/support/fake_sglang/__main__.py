"""The fake as a process: prints the log lines that matter, serves, and dies of SIGKILL as the real one does.

Unknown SGLang flags are accepted and ignored, so that it can stand where `python -m sglang.launch_server` stands.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from tests.support.fake_sglang.facts import Facts, Knobs
from tests.support.fake_sglang.script import JsonScript
from tests.support.fake_sglang.server import FakeSglang
from tests.support.fake_sglang.vocabulary import BuiltinVocabulary, FolderVocabulary

ANSWERS_OUT_S = 0.25
"""After the last request has ended: its answer is still to be written, as the real one writes it before it closes"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control", action="store_true", help="serve /__fake__/{script,knobs,facts,requests,die}")
    parser.add_argument("--script", type=Path, help="JSON rules")
    parser.add_argument("--facts", default="{}", help="JSON object of facts")
    parser.add_argument("--knobs", default="{}", help="JSON object of knobs")
    parser.add_argument("--tokenizer", type=Path, help="a Hugging Face folder instead of the built-in vocabulary")
    parser.add_argument("--load-seconds", type=float, default=0.0, help="seconds in which the port refuses")
    parser.add_argument("--warm-seconds", type=float, default=0.0, help="seconds in which /health is 503")
    parser.add_argument("--config", type=Path, help="SGLang's own config file; `api-key` is read from it")
    parser.add_argument("--api-key")
    parser.add_argument("--model-path", default="models/think")
    parser.add_argument("--tokenizer-path", default="")
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--context-length", type=int, default=4096)
    parser.add_argument("--weight-version", default="default")
    parser.add_argument("--reasoning-parser")
    parser.add_argument("--tool-call-parser")
    return parser.parse_known_args()[0]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _key(arguments: argparse.Namespace) -> str | None:
    config: Path | None = arguments.config
    if config is not None:
        for line in config.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip().replace("_", "-") == "api-key":
                return value.strip().strip("'\"")
    return str(arguments.api_key) if arguments.api_key else None


async def _main(arguments: argparse.Namespace) -> int:
    facts = Facts(
        model_path=arguments.model_path,
        tokenizer_path=arguments.tokenizer_path,
        served_model_name=arguments.served_model_name,
        context_length=arguments.context_length,
        weight_version=arguments.weight_version,
        reasoning_parser=arguments.reasoning_parser,
        tool_call_parser=arguments.tool_call_parser,
        api_key=_key(arguments),
    )
    for name, value in json.loads(arguments.facts).items():
        setattr(facts, name, value)
    knobs = Knobs(**json.loads(arguments.knobs))
    server = FakeSglang(
        facts=facts,
        knobs=knobs,
        script=JsonScript(json.loads(arguments.script.read_text())) if arguments.script else None,
        vocabulary=FolderVocabulary(arguments.tokenizer) if arguments.tokenizer else BuiltinVocabulary(),
        port=arguments.port,
        control=arguments.control,
        on_death=lambda: os.kill(os.getpid(), signal.SIGKILL),
    )
    wanted, knobs.health = knobs.health, "starting" if arguments.warm_seconds else knobs.health
    _say("Load weight begin. avail mem=8.00 GB")
    await asyncio.sleep(arguments.load_seconds)
    _say("Load weight end. elapsed=0.03 s, type=Qwen3ForCausalLM, avail mem=7.99 GB, mem usage=0.01 GB.")
    _say(f"max_total_num_tokens={facts.max_total_num_tokens}, context_len={facts.context_length}")
    try:
        await server.serve()
    except OSError as error:
        _say(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('127.0.0.1', {arguments.port}): address already in use"
        )
        return 3
    _say(f"INFO:     Uvicorn running on {server.url} (Press CTRL+C to quit)")
    await asyncio.sleep(arguments.warm_seconds)
    knobs.health = wanted
    _say("The server is fired up and ready to roll!")

    def drain() -> None:
        _say("SIGTERM received. Draining requests and shutting down...")
        knobs.draining = True
        asyncio.get_running_loop().create_task(finish())

    async def finish() -> None:
        while server.model.live:  # noqa: ASYNC110  (polled, as the real one polls)
            await asyncio.sleep(0.01)
        await asyncio.sleep(ANSWERS_OUT_S)
        _say("Gracefully exiting... Remaining number of requests 0")
        server._fall()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, drain)
    await server.wait_stopped()
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(_main(_arguments())))
