"""Repeats single rows, from the root of the repository:

PYTHONPATH=examples/evaluation python -m fidelity convolution/widening/0      a real run, with a profile of its own
PYTHONPATH=examples/evaluation python -m fidelity --rehearse "one stage of 10 in turns" --true-cv 0.1 --seeds 40
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rb_core.errors import RubberBandError

from .cases import case_of
from .measured import measured
from .rehearsals import PROBLEMS, covered, rehearsed


def main() -> int:
    """Repeat what was asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m fidelity", description="Repeat single rows of the study.")
    parser.add_argument(
        "run", nargs="*", help="real runs, WORKLOAD/SHAPE/REPETITION; those that share a profile in a row"
    )
    parser.add_argument("--rehearse", choices=list(PROBLEMS), metavar="PROBLEM", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--true-cv", type=float, default=0.0, help="how far the profile is off (default 0)")
    parser.add_argument("--run-cv", type=float, default=0.0, help="how far off the forecast takes it to be (default 0)")
    parser.add_argument("--seeds", type=int, default=40, help="so many rehearsals (default 40)")
    asked = parser.parse_args()
    if bool(asked.run) == bool(asked.rehearse):
        parser.error("name real runs, or a problem to rehearse")
    try:
        if asked.rehearse:
            runs = list(rehearsed(asked.rehearse, asked.true_cv, asked.seeds))
            _print(asdict(covered(asked.rehearse, runs, run_cv=asked.run_cv)))
            return 0
        chosen = [case_of(name) for name in asked.run]
        with tempfile.TemporaryDirectory(prefix="fidelity-") as home:
            for row in measured(chosen, Path(home)):
                _print(asdict(row))
    except (ValueError, RubberBandError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _print(row: Mapping[str, object]) -> None:
    for name, value in row.items():
        print(f"{name:18} {value}")
    print()


if __name__ == "__main__":
    sys.exit(main())
