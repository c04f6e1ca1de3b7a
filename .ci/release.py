"""Builds what is released, and tries it in new environments: one without extras, and one with each of them alone.

    python .ci/release.py [EXTRA ...]

Builds the sdist from this tree and the wheel from the sdist, into .venv-release/dist. EXTRA is core (the wheel alone)
or the name of an extra; all of them where none is named. The exit status is 0 when everything was installed and works.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-release"

CORE = ("python -c 'import rb_core, rb_plugins'", "rb-tune plan {problem} --json", "rb-tune doctor")
"""Commands that work in every environment."""

TRIALS = {
    "core": (),
    "torch": ("rb-tune init job --kind pytorch", "rb-tune run job/experiment.toml --yes"),
    "optuna": ("rb-tune init job --kind optuna", "python job/tune.py"),
    "ray": ("rb-tune init job --kind ray", "python job/tune.py"),
    "aws": ("python -c 'import rb_core.providers.ec2.provider'", "rb-tune policy driver"),
    "report": ("rb-tune pareto {problem} --picture front.svg",),
    "docs": ("python -m sphinx --version",),
}
"""Commands that work with one extra alone, beside `CORE`."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of one environment; `failed` is the step that did not work, empty when all did."""

    extra: str
    failed: str
    seconds: float
    mib: float


def build(tree: Path, folder: Path) -> tuple[Path, Path]:
    """(sdist, wheel) of a source tree, newly built into a folder; the wheel is made of the sdist."""
    sdist = _built(tree, "sdist", folder)
    with tempfile.TemporaryDirectory() as unpacked:
        shutil.unpack_archive(sdist, unpacked, filter="data")
        (inner,) = Path(unpacked).iterdir()
        return sdist, _built(inner, "wheel", folder)


def _built(tree: Path, kind: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    code = f"import sys, hatchling.build; print(hatchling.build.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", code, folder.resolve()]
    return folder / subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def attempt(extra: str, wheel: Path) -> Row:
    """Install the wheel with one extra in a new environment, and do there what the extra is for."""
    print(f"\n== {extra}", flush=True)
    began = time.monotonic()
    environment = FOLDER / extra
    venv.create(environment, with_pip=True, clear=True)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    wanted = f"rubberband-tune @ {wheel.resolve().as_uri()}"
    if extra != "core":
        wanted = wanted.replace("rubberband-tune", f"rubberband-tune[{extra}]", 1)
    steps = [
        [*pip, "install", "--quiet", "-c", ROOT / "constraints.txt", wanted],
        [*pip, "check"],
        *(_step(environment, text) for text in (*CORE, *TRIALS[extra])),
    ]
    failed = ""
    # Where no source tree can be imported by chance.
    with tempfile.TemporaryDirectory() as elsewhere:
        variables = {**os.environ, "RB_HOME": str(Path(elsewhere) / "home")}
        variables.pop("PYTHONPATH", None)
        for step in steps:
            if subprocess.run(step, cwd=elsewhere, env=variables, stdout=subprocess.DEVNULL).returncode:
                failed = " ".join(map(str, step))
                break
    mib = sum(file.lstat().st_size for file in environment.rglob("*")) / 2**20
    return Row(extra=extra, failed=failed, seconds=time.monotonic() - began, mib=mib)


def _step(environment: Path, text: str) -> Sequence[str | Path]:
    program, *words = shlex.split(text.format(problem=ROOT / "examples" / "problems" / "ec2.toml"))
    return [environment / "bin" / program, *words]


def main(extras: Sequence[str]) -> int:
    """Build, try each environment, and print the table."""
    if unknown := set(extras) - set(TRIALS):
        print(f"no such extra: {', '.join(sorted(unknown))}; there are {', '.join(TRIALS)}", file=sys.stderr)
        return 2
    sdist, wheel = build(ROOT, FOLDER / "dist")
    print(*(f"{file.name}: {file.stat().st_size / 1024:.0f} KiB" for file in (sdist, wheel)), sep="\n")
    rows = [attempt(extra, wheel) for extra in extras or TRIALS]
    print(f"\n{'extra':8} {'seconds':>7} {'MiB':>6}")
    for row in rows:
        print(f"{row.extra:8} {row.seconds:7.0f} {row.mib:6.0f}  {f'FAILED: {row.failed}' if row.failed else 'works'}")
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
