"""Carrying out one study: timed, recorded, and its results swapped in when all of them are there."""

from __future__ import annotations

import datetime
import importlib
import shutil
import sys
import time
import traceback
from pathlib import Path

from machine import machine
from records import RECORD, Record, write_index, write_record

from rb_core.errors import RubberBandError

STUDIES = ("headline", "fidelity", "sensitivity", "spot", "replanning", "curves", "dollars", "sampling")
"""In the order in which they run. Each is a package with `TITLE`, `SEEDS` and ``run(out, *, quick)``."""


def carry_out(study: str, out: Path, *, quick: bool) -> bool:
    """Run a study and write the index anew.

    The study writes into a folder beside the one that its results go to, which replaces that when it is done. So a
    study that fails, or is killed, leaves the results of before as they were.

    Args:
        study: its name.
        out: the folder of all results.
        quick: whether it is the small one.

    Returns:
        Whether it came to its end; what went wrong is told on standard error.
    """
    print(f"== {study}", file=sys.stderr, flush=True)
    new = out / f".{study}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    began = time.perf_counter()
    try:
        module = importlib.import_module(study)
        module.run(new, quick=quick)
    except (Exception, SystemExit) as error:
        if isinstance(error, RubberBandError):
            print(error, file=sys.stderr)
        else:
            traceback.print_exc()
        shutil.rmtree(new, ignore_errors=True)
        print(f"== {study} failed after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        return False
    seconds = time.perf_counter() - began
    record = Record(
        study=study,
        title=module.TITLE,
        command=f"./dev evaluate --only {study}{' --quick' if quick else ''}",
        seeds=getattr(module, "SEEDS", "named in its pages"),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        seconds=round(seconds, 1),
        machine=machine(),
    )
    write_record(new / RECORD, record)
    shutil.rmtree(out / study, ignore_errors=True)
    new.rename(out / study)
    write_index(out, STUDIES)
    print(f"== {study}: {seconds:.0f} s, into {out / study}", file=sys.stderr, flush=True)
    return True
