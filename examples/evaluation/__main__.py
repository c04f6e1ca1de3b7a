"""Works out the evaluation anew: raw figures as CSV, tables as Markdown, charts as SVG.

    python examples/evaluation                     everything, into examples/evaluation/results; a few hours
    python examples/evaluation --quick             a small part of every study, elsewhere; ten minutes on two cores
    python examples/evaluation --only spot sampling     some studies

A study is a folder beside this file. Each runs in a process of its own, and the results of one that fails stay as they
were. The exit status is 1 when any failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from frame import STUDIES, carry_out

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
QUICK_RESULTS = HERE.parents[1] / "build" / "evaluation"


def main() -> int:
    """Run the studies that were asked for."""
    parser = argparse.ArgumentParser(prog="./dev evaluate", description="Work out the evaluation anew.")
    parser.add_argument("--quick", action="store_true", help="a small part of every study, into build/evaluation")
    parser.add_argument("--only", nargs="+", choices=STUDIES, metavar="STUDY", help=f"only these: {', '.join(STUDIES)}")
    parser.add_argument("--out", type=Path, help="folder to write into, one folder a study")
    asked = parser.parse_args()
    out = (asked.out or (QUICK_RESULTS if asked.quick else RESULTS)).resolve()
    if asked.quick and out == RESULTS:
        parser.error("--quick must not replace the whole results: give another --out")
    studies = [name for name in STUDIES if name in (asked.only or STUDIES)]
    if len(studies) == 1:
        return 0 if carry_out(studies[0], out, quick=asked.quick) else 1
    failed = [name for name in studies if _apart(name, out, quick=asked.quick)]
    if failed:
        print(f"failed: {', '.join(failed)}; again: ./dev evaluate --only {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _apart(study: str, out: Path, *, quick: bool) -> int:
    """The exit status of one study in a process of its own: what it leaves behind ends with it."""
    options: Sequence[str] = ["--only", study, "--out", str(out), *(["--quick"] if quick else [])]
    return subprocess.run([sys.executable, str(HERE), *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
