"""A PostgreSQL server of the system's own, for one run of the tests: on loopback, in a folder that goes with it."""

from __future__ import annotations

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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSTALLED = Path("/usr/lib/postgresql")
"""Debian and Ubuntu keep the server's programs here, in one folder a version, and not in PATH."""

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
fsync = off
synchronous_commit = off
full_page_writes = off
"""

PATIENCE_SECONDS = 60
"""How long the server may take to accept its first connection, and to end."""

POLL_SECONDS = 0.02


class ServerError(RuntimeError):
    """The server cannot be found, started or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that accepts connections."""

    folder: Path
    port: int
    password: str

    def url(self, database: str) -> str:
        """The database's URL, as SQLAlchemy takes it."""
        return f"postgresql+psycopg2://postgres:{self.password}@127.0.0.1:{self.port}/{database}"


@contextmanager
def running(installed: Path = INSTALLED) -> Iterator[Server]:
    """Start a server, and end it with all its processes and files.

    Args:
        installed: The folder that holds the programs of each version, looked into before PATH.

    Raises:
        ServerError: No server is installed, or it does not start or end; the message holds what it printed.
    """
    programs, owner = find(installed), unprivileged()
    # Not below pytest's own folder: nobody but this process's user may enter that one.
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    server = Server(folder=folder, port=_free_port(), password=secrets.token_hex())
    try:
        (folder / "password").write_text(server.password)
        for path in (folder, folder / "password"):
            os.chown(path, owner.pw_uid, owner.pw_gid)
        _initialise(programs, folder, owner)
        with (folder / "data" / "postgresql.conf").open("a") as configuration:
            configuration.write(SETTINGS.format(port=server.port))
        with _started(programs, folder, owner, server):
            yield server
    finally:
        shutil.rmtree(folder)


def find(installed: Path = INSTALLED) -> Path:
    """The folder of the newest server's programs.

    Raises:
        ServerError: There is none.
    """
    versions = {float(program.parts[-3]): program.parent for program in installed.glob("[0-9]*/bin/postgres")}
    if versions:
        return versions[max(versions)]
    on_path = shutil.which("postgres")
    if on_path is None:
        raise ServerError(
            f"no PostgreSQL server: there is no postgres in {installed}/VERSION/bin, nor in PATH; "
            "install the system's own (Debian, Ubuntu: apt-get install postgresql)"
        )
    return Path(on_path).resolve().parent


def unprivileged() -> pwd.struct_passwd:
    """The user who runs the server: this process's own, or another for root, as whom PostgreSQL refuses to run.

    Raises:
        ServerError: This process is root's, and there is no such user.
    """
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerError("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as; add one")


def _initialise(programs: Path, folder: Path, owner: pwd.struct_passwd) -> None:
    command: list[str | Path] = [programs / "initdb", "-D", folder / "data", "-U", "postgres"]
    command += ["--auth=scram-sha-256", f"--pwfile={folder}/password", "--no-locale", "--encoding=UTF8", "--no-sync"]
    ran = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **_as_user(owner, folder)
    )
    if ran.returncode != 0:
        raise ServerError(f"PostgreSQL's initdb failed ({ran.returncode}):\n{ran.stdout}{ran.stderr}")


@contextmanager
def _started(programs: Path, folder: Path, owner: pwd.struct_passwd, server: Server) -> Iterator[None]:
    """Run the server of ``folder``: from its first connection on, until all its processes have ended."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C is the tests' own affair: the server goes when they have closed their studies.
            start_new_session=True,
            **_as_user(owner, folder),
        )
    try:
        _await_connections(programs, folder, process, server)
        yield
    finally:
        # An interrupt ends it fast: it closes the connections that are still open, and waits for its processes.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerError(f"PostgreSQL did not end within {PATIENCE_SECONDS} s, and was killed") from None


def _await_connections(programs: Path, folder: Path, process: subprocess.Popen[bytes], server: Server) -> None:
    asked: list[str | Path] = [programs / "pg_isready", "--quiet", "--host=127.0.0.1", f"--port={server.port}"]
    limit = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(asked, check=False).returncode != 0:
        try:
            happened = f"ended ({process.wait(POLL_SECONDS)})"
        except subprocess.TimeoutExpired:
            if time.monotonic() < limit:
                continue
            happened = f"accepted no connection within {PATIENCE_SECONDS} s"
        raise ServerError(f"PostgreSQL {happened}; it printed:\n{(folder / 'log').read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _as_user(owner: pwd.struct_passwd, folder: Path) -> dict[str, Any]:
    """Options of subprocess with which a program runs as ``owner``, in a folder that this user may enter."""
    if owner.pw_uid == os.geteuid():
        return {"cwd": folder}
    return {"cwd": folder, "user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
