"""A start before and as it happens: what can be checked, the files it needs, the process."""

import os
import secrets
from collections.abc import Collection
from dataclasses import dataclass

from db.tables import Backend
from db.types import now
from inference.backends.host import litter
from inference.backends.host.gpumemory import used_mib
from inference.backends.host.identity import machine, new_marker
from inference.backends.host.process import ServerProcess
from inference.backends.launch.checks import check_interpreter, check_spec, visible_devices
from inference.backends.launch.command import LaunchCommand, build_command
from inference.backends.launch.ports import LOOPBACK, reserve
from inference.backends.launch.spec import LaunchSpec
from inference.backends.launch.stored import to_start
from inference.backends.logs.following import LogFollower
from inference.backends.logs.keeping import log_folder, prune
from inference.backends.logs.phases import PhaseTracker
from inference.backends.server.client import SglangClient
from inference.backends.server.readiness import Expected
from inference.backends.supervision.life import Life
from inference.backends.supervision.pulse import Pulse
from inference.backends.supervision.records import NewStart
from inference.settings import Settings

CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """A start that passed every check and is not spawned yet."""

    new: NewStart
    command: LaunchCommand
    spec: LaunchSpec


def plan_start(settings: Settings, backend: Backend, number: int, ports_in_use: Collection[int]) -> Plan:
    """Check what can be checked and lay out the files of a start. Blocks: it asks the interpreter for sglang.

    Raises:
        Invalid: the launch cannot work; the field is named.
        Unavailable: no sglang, no free port.
        OSError: the data directory cannot be written.
    """
    spec = check_spec(settings, to_start(backend.launch))
    python = check_interpreter(settings, thoroughly=True)
    ports = reserve(spec, ports_in_use)
    folder = log_folder(settings, backend.id or 0)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    prune(folder, settings.log_keep - 1, ())  # nothing of this backend lives where it is started, and it adds one
    log = folder / f"start-{number}.log"
    key_file = log.with_suffix(".yaml")
    weight_version = new_marker(settings.data_dir, backend.id or 0, number)
    api_key = secrets.token_hex(24)
    temporary = litter.temporary(weight_version, os.environ)
    command = build_command(
        spec,
        python=python,
        ports=ports,
        key_config_path=key_file,
        weight_version=weight_version,
        api_key=api_key,
        devices=visible_devices(spec.gpus),
        base_env={**os.environ, **temporary},
    )
    key_file.unlink(missing_ok=True)
    with os.fdopen(os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(command.config_text)
    here = machine()
    new = NewStart(
        number=number,
        command=command.shown,
        environment=command.shown_env,
        log=log,
        ports=ports,
        weight_version=weight_version,
        url=f"http://{LOOPBACK}:{ports.http}",
        api_key=api_key,
        host=here.host,
        boot_id=here.boot_id or None,
        gpu_before=None if spec.device == "cpu" else used_mib(spec.gpus or None),
    )
    return Plan(new, command, spec)


def spawn(plan: Plan) -> ServerProcess:
    """Start the process. Blocks for a moment.

    Raises:
        OSError: the interpreter cannot be executed.
    """
    new = plan.new
    return ServerProcess.spawn(
        plan.command.argv, plan.command.env, log=new.log, cwd=new.log.parent, marker=new.weight_version
    )


def new_life(plan: Plan, start_id: int, process: ServerProcess) -> Life:
    """The life of a process that was just spawned."""
    new, spec = plan.new, plan.spec
    serves = not spec.follower
    return Life(
        start_id=start_id,
        number=new.number,
        port=new.ports.http,
        expected=Expected(new.weight_version, spec.model_path, serves=serves),
        pulse=Pulse(now(), serves=serves),
        log=new.log,
        url=new.url,
        api_key=new.api_key,
        limit_s=spec.startup_limit_s,
        drain_limit_s=spec.drain_limit_s,
        gpu_before=new.gpu_before,
        process=process,
        follower=LogFollower(new.log),
        tracker=PhaseTracker(now()),
        client=SglangClient(new.url, new.api_key, max_connections=CONNECTIONS),
    )
