"""Runs an adapter's tests against several releases of its host, each in an environment of its own.

    python .ci/matrix.py optuna|ray [RELEASE ...]

RELEASE is the beginning of a version (4.0), or newest; `RELEASES` of the host where none is given. The environments are
kept in .venv-matrix, so that a second run installs only what has changed. The exit status is 0 when every test passed
with every release.
"""

import os
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path

from tally import tally

RELEASES = {"optuna": ("4.0", "4.9", "newest"), "ray": ("2.52", "newest")}
ENVIRONMENTS = Path(".venv-matrix")
TESTS = Path("tests/adapters")


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of one release; ``version`` is the one that was installed, None when that failed."""

    release: str
    version: str | None = None
    passed: int = 0
    not_passed: int = 0
    status: int = 1
    without_tests: tuple[str, ...] = ()
    install_seconds: float = 0.0
    test_seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Every test has passed; a file may hold none for an older release."""
        return self.passed > 0 and not (self.not_passed or self.status)


def main(words: list[str]) -> int:
    """Run the tests with each release, and print the table."""
    host, *releases = words or [""]
    if host not in RELEASES:
        print(f"name the host whose releases are to be tested: {', '.join(RELEASES)}; got {host!r}", file=sys.stderr)
        return 2
    rows = [run(host, release) for release in releases or RELEASES[host]]
    print("\n" + table(host, rows))
    return 0 if all(row.good for row in rows) else 1


def run(host: str, release: str) -> Row:
    """Install one release and run the tests with it."""
    print(f"\n== {host} {release}", flush=True)
    environment = ENVIRONMENTS / f"{host}-{release}"
    tests = TESTS / f"rb_{host}"
    python = environment / "bin" / "python"
    began = time.monotonic()
    if not install(host, release, environment):
        return Row(release=release, install_seconds=time.monotonic() - began)
    installed = time.monotonic()
    version = subprocess.run(
        [python, "-c", f"from importlib.metadata import version; print(version({host!r}))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    results = environment / "results"
    shutil.rmtree(results, ignore_errors=True)
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={results / 'all.xml'}"]
    status = subprocess.run([python, "-m", "pytest", *options, tests], check=False).returncode
    ended = time.monotonic()
    passed, not_passed, without = tally(results, tests)
    return Row(
        release=release,
        version=version,
        passed=passed,
        not_passed=not_passed,
        status=status,
        without_tests=tuple(name.rpartition(".")[-1] for name in without),
        install_seconds=installed - began,
        test_seconds=ended - installed,
    )


def install(host: str, release: str, environment: Path) -> bool:
    """Make the environment, or bring it up to date; what went wrong is printed."""
    if not (environment / "bin" / "python").exists():
        venv.create(environment, with_pip=True, clear=True)
    wanted = host if release == "newest" else f"{host}=={release}.*"
    command: list[str | Path] = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    variables = dict(os.environ)
    if uv := shutil.which("uv"):
        command = [uv, "pip"]
        # uv does not read pip's settings: tell it of the folder of wheels that pip looks into.
        variables.setdefault("UV_FIND_LINKS", variables.get("PIP_FIND_LINKS", ""))
        variables["VIRTUAL_ENV"] = str(environment.resolve())
    upgrade = ["--upgrade-package", host] if uv else ["--upgrade"]
    command += ["install", "--quiet", *upgrade, "-c", "constraints.txt", wanted, "-e", ".[dev]"]
    return subprocess.run(command, env=variables, check=False).returncode == 0


def table(host: str, rows: list[Row]) -> str:
    """One line a release."""
    lines = [f"{host:8} {'installed':10} {'passed':>6} {'failed':>6} {'install':>8} {'tests':>8}"]
    for row in rows:
        lines.append(
            f"{row.release:8} {row.version or 'none':10} {row.passed:6} {row.not_passed:6} "
            f"{row.install_seconds:6.0f} s {row.test_seconds:6.0f} s  {'passed' if row.good else 'FAILED'}"
            + (f" (no tests: {', '.join(row.without_tests)})" if row.without_tests else "")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
