"""Databases for tests: a migrated SQLite file to copy, and a private PostgreSQL cluster with a migrated template.

The cluster lives in a folder of its own, listens on a Unix socket and on a free loopback port with a random password, and
is stopped by its own pid. PostgreSQL refuses to run as root, so root starts it as the `postgres` user.
"""

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from db.engine import Database
from db.migrate import upgrade
from tests.support.absent import missing

START_S = 60
_TEMPLATE = "draftmill_template"


class PostgresCluster:
    """A running cluster; `url(name)` is the address of one of its databases."""

    def __init__(self, folder: Path, port: int, password: str) -> None:
        self.folder = folder
        self.port = port
        self.password = password

    def url(self, name: str) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{name}"

    def admin(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname="postgres", autocommit=True
        )

    def create(self, template: str | None = None) -> str:
        """A new database, empty or a copy of `template`; returns its name."""
        name = f"t_{secrets.token_hex(6)}"
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        with self.admin() as connection:
            connection.execute(statement)
        return name

    def drop(self, name: str) -> None:
        with self.admin() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def migrated_template(self) -> str:
        """The template's name; made at the first call."""
        with self.admin() as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (_TEMPLATE,)).fetchone():
                return _TEMPLATE
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        database = Database(self.url(_TEMPLATE))
        upgrade(database)
        database.dispose()
        return _TEMPLATE


def find_postgres() -> Path | None:
    """The newest folder with PostgreSQL's server programs, or None."""
    on_path = shutil.which("initdb")
    folders = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    folders.sort(key=lambda folder: int(folder.parent.name) if folder.parent.name.isdigit() else 0)
    if folders:
        return folders[-1]
    return Path(on_path).resolve().parent if on_path else None


@contextlib.contextmanager
def postgres_cluster() -> Iterator[PostgresCluster]:
    """Start a cluster and stop it at the end; skips the test where there is no PostgreSQL."""
    programs = find_postgres()
    if programs is None:
        missing("PostgreSQL's server programs (initdb, postgres) are not installed: apt-get install postgresql")
    user = _server_user()
    folder = Path(tempfile.mkdtemp(prefix="draftmill-pg-"))
    password = secrets.token_hex(16)
    try:
        (folder / "password").write_text(password)
        if user:
            account = pwd.getpwnam(user)
            for path in (folder, folder / "password"):
                os.chown(path, account.pw_uid, account.pw_gid)
        initdb = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "--no-sync", "-E", "UTF8"]
        initdb += ["--locale=C.UTF-8", "-A", "scram-sha-256", "--auth-local=trust", f"--pwfile={folder / 'password'}"]
        subprocess.run(initdb, check=True, capture_output=True, cwd="/", **_as(user))
        process, port = _start(programs, folder, user)
        try:
            yield PostgresCluster(folder, port, password)
        finally:
            process.send_signal(signal.SIGINT)  # PostgreSQL's "fast" shutdown
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _server_user() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return missing("PostgreSQL cannot run as root, and there is no user `postgres` or `nobody` to run it as")


def _as(user: str | None) -> dict[str, object]:
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


def _start(programs: Path, folder: Path, user: str | None) -> tuple[subprocess.Popen, int]:
    for _ in range(3):  # a port that was free may be taken by the time the server binds it
        port = _free_port()
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), "-p", str(port)]
        options = ("listen_addresses=127.0.0.1", "fsync=off", "full_page_writes=off", "max_connections=200")
        for option in (*options, "shared_buffers=32MB", "timezone=Asia/Kolkata"):
            command += ["-c", option]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **_as(user)
            )
        if _answers(process, folder, port):
            return process, port
        process.kill()
        process.wait()
    raise AssertionError(f"PostgreSQL did not start:\n{(folder / 'log').read_text(errors='replace')}")


def _answers(process: subprocess.Popen, folder: Path, port: int) -> bool:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            psycopg.connect(host=str(folder), port=port, user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
