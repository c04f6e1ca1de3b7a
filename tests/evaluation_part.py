"""Parts of examples/evaluation, run as somebody would who stands in its folder, and what it wrote."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from source_tree import ROOT

EVALUATION = ROOT / "examples" / "evaluation"
RESULTS = EVALUATION / "results"


def measured(code: str, *arguments: str) -> None:
    """Run code that may import the studies; it finds its arguments in `sys.argv`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import sys; from pathlib import Path; {code}", *arguments],
        cwd=EVALUATION,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def lines_of(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV by the names of its columns."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
