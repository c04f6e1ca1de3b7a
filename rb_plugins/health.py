"""Looks at what is installed and at this machine: whether runs can work here. Contacts nobody unless it is asked to."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from rb_core.clock import SystemClock
from rb_core.errors import RubberBandError
from rb_core.inspection import Finding, ok, problem, warning
from rb_plugins.importable import require
from rb_plugins.installed import DISTRIBUTION, Extra, install_command

LOWEST_PYTHON = (3, 11)
SCANT_GIB = 1.0
"""Free space below which checkpoints may not fit."""

_SKEW = timedelta(days=1)
"""By how much a clock may stand before the package's own files: they carry the time of another machine."""


class UnsoundSetup(RubberBandError):
    """Runs cannot work as things are installed.

    Attributes:
        problems: what is wrong, and what to do.
    """

    def __init__(self, problems: Sequence[Finding]) -> None:
        lines = (f"{finding.subject}: {finding.said}; {finding.remedy}" for finding in problems)
        super().__init__("\n".join([f"{len(problems)} problem(s) keep rb-tune from working:", *lines]))
        self.problems = tuple(problems)


def examine(needed: Extra, *, ask_aws: bool = False) -> Iterator[Finding]:
    """One finding for each thing that is looked at.

    Args:
        needed: what the package always needs.
        ask_aws: also ask AWS whose the credentials are.
    """
    yield _python()
    yield ok("package", f"{DISTRIBUTION} {version(DISTRIBUTION)}, in {Path(__file__).parent}")
    yield _needs(needed)
    yield _looked("training processes", _processes, install_command(*(package.name for package in needed.packages)))
    yield from _plugins()
    yield _looked("run directory", _home, "set RB_HOME to a folder that can be written to")
    yield _space()
    yield _slots()
    yield from _gpus()
    yield _clock()
    yield _aws_asked() if ask_aws else _aws(os.environ)
    address = os.environ.get("RAY_ADDRESS")
    yield ok("clusters", f"RAY_ADDRESS is {address}, not contacted" if address else "none is named, none was contacted")


def _python() -> Finding:
    said = f"{platform.python_version()} on {platform.system()}, {sys.executable}"
    if sys.version_info < LOWEST_PYTHON:
        return problem("python", said, "use Python 3.11 or newer")
    if sys.platform != "linux":
        return problem("python", said, "use Linux: runs rest on its process control")
    return ok("python", said)


def _needs(needed: Extra) -> Finding:
    unfit = [package for package in needed.packages if not package.is_fit]
    if unfit:
        install = install_command(*(f"{package.name}>={package.lowest}" for package in unfit))
        return problem("needed packages", ", ".join(map(str, unfit)), install)
    return ok("needed packages", ", ".join(map(str, needed.packages)))


def _processes() -> str:
    """Start what starts training processes, and let it import all that they need."""
    from rb_core.launchers.order import Preparation
    from rb_core.launchers.server import ForkServer
    from rb_core.target import Target

    target = Target.parse("rb_core.trial:Trial")
    server = ForkServer(Preparation(modules=("numpy", "scipy.stats", "rb_core.trial"), target=target, preload=False))
    server.close()
    if server.prepared.problem is not None:
        raise server.prepared.problem
    return "a fork-server was started, imported what they need, and was ended"


def _plugins() -> Iterator[Finding]:
    from rb_plugins.completing import quiet
    from rb_plugins.manager import make_manager

    try:
        with quiet():
            manager = make_manager()
            for names in (manager.providers, manager.launchers, manager.planners, manager.price_books, manager.depots):
                names()
    except RubberBandError as error:
        yield problem("plugins", *_parted(error, "uninstall one of the two"))
        return
    reports = manager.reports()
    for report in reports:
        if report.problem and not report.problem.startswith("blocked"):
            remedy = (
                f"mend or uninstall {report.distribution or report.name}, or block it: RB_BLOCK_PLUGINS={report.name}"
            )
            yield warning("plugins", f"{report.name}: {report.problem}", remedy)
    yield ok("plugins", ", ".join(report.name for report in reports if not report.problem))


def _home() -> str:
    from rb_plugins.rundir import RunDirectory, home

    RunDirectory.check_home(home())
    return f"runs are kept in {home()}"


def _space() -> Finding:
    from rb_plugins.rundir import home

    nearest = next(path for path in (home(), *home().parents) if path.exists())
    free_gib = shutil.disk_usage(nearest).free / 2**30
    said = f"{free_gib:.1f} GiB free where runs are kept"
    if free_gib < SCANT_GIB:
        return warning("disk", said, "free some space, or set RB_HOME to a folder on another disk")
    return ok("disk", said)


def _slots() -> Finding:
    from rb_core.providers.machine import devices

    found = devices()
    usable, all_cores = len(os.sched_getaffinity(0)), os.cpu_count()
    kind = "GPUs" if any(found) else "cores"
    return ok("slots", f"{len(found)} {kind} for the provider local; {usable} of {all_cores} cores may be used")


def _gpus() -> Iterator[Finding]:
    from rb_core.providers.machine import gpu_count, visible

    count = gpu_count()
    seen = len(visible(os.environ, count))
    yield ok("GPUs", f"{count} of NVIDIA's, {seen} of them visible" if count else "none of NVIDIA's")
    if find_spec("torch") is None:
        return
    cuda = torch_cuda()
    said = f"torch {version('torch')}, " + (f"built for CUDA {cuda}" if cuda else "built for CPUs alone")
    if count and not cuda:
        yield warning("torch", said, "install a build for CUDA, from PyTorch's index, to train on the GPUs")
    else:
        yield ok("torch", said)


def torch_cuda() -> str:
    """The version of CUDA that torch was built for, without importing it; empty where it was built for CPUs alone."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([^'\"]+)", text, flags=re.MULTILINE)
    return found[1] if found else ""


def _clock() -> Finding:
    now = SystemClock().utc()
    made = datetime.fromtimestamp(Path(__file__).stat().st_mtime, tz=UTC)
    said = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now + _SKEW < made:
        late = f"{said}, before these files were made ({made:%Y-%m-%d})"
        return warning("clock", late, "set the clock: leases and AWS's signatures need the right time")
    return ok("clock", said)


def _aws(environ: os._Environ[str]) -> Finding:
    from rb_plugins.credentials import found_credentials

    where = found_credentials(environ)
    return ok("AWS credentials", f"{where}; not tried out (--aws does)" if where else "none found; EC2 needs some")


def _aws_asked() -> Finding:
    remedy = "see docs/ec2.md for the credentials that are needed"

    def ask() -> str:
        require("boto3", key="--aws", extra="aws")
        from rb_core.providers.ec2.clients import Clients
        from rb_core.providers.ec2.identity import Identity

        identity = Identity.ask(Clients(os.environ.get("AWS_REGION") or "us-east-1"))
        return f"account {identity.account}, {identity.arn}"

    if find_spec("boto3") is None:
        return warning("AWS credentials", "cannot be tried out without boto3", install_command("[aws]"))
    try:
        return ok("AWS credentials", ask())
    except RubberBandError as error:
        return warning("AWS credentials", *_parted(error, remedy))


def _looked(subject: str, look: Callable[[], str], remedy: str) -> Finding:
    try:
        return ok(subject, look())
    except ImportError as error:
        return problem(subject, str(error), remedy)
    except RubberBandError as error:
        return problem(subject, *_parted(error, remedy))


def _parted(error: RubberBandError, remedy: str) -> tuple[str, str]:
    said, _, own = str(error).rpartition("; ")
    return (said, own) if said else (own, remedy)
