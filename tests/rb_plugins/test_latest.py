"""Which run `report` and `stop` are about where none is named."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from rb_core.clock import SystemClock
from rb_core.errors import InvalidInput
from rb_core.eventlog import line
from rb_core.events import RunEnded, RunEnding, RunStarted
from rb_core.lease import Lease
from rb_plugins.cli import main
from rb_plugins.config.cloud import cloud_table
from rb_plugins.config.tuning import load_tuning
from rb_plugins.latest import to_report, to_stop
from rb_plugins.logged import no_books
from rb_plugins.rundir import RunDirectory

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WHEN = {"t_s": 1.0, "utc": NOW.isoformat()}


def begun(home: Path, name: str, problem: dict, *, written_s: float, ending: RunEnding | None = None) -> RunDirectory:
    """A directory with a log of so few events, written to at some time."""
    directory = RunDirectory.create(home, name, NOW)
    started = RunStarted(
        **WHEN, run=directory.run, problem=problem, plan={"stages": []}, metric="", mode="max", seed=0, target="f",
        environment={},
    )  # fmt: skip
    events = [started, *([] if ending is None else [RunEnded(**WHEN, ending=ending)])]
    directory.events.write_text("".join(map(line, events)))
    os.utime(directory.events, (written_s, written_s))
    return directory


def test_a_run_goes_before_a_later_profiling_and_before_one_that_has_not_begun(tmp_path):
    with pytest.raises(InvalidInput, match=r"there is no run in .* yet; begin one with `rb-tune run`$"):
        to_report(tmp_path)
    unbegun = RunDirectory.create(tmp_path, "unbegun", NOW)
    unbegun.events.touch()
    assert to_report(tmp_path) == unbegun
    profiling = begun(tmp_path, "profile", {"profiling": {}}, written_s=2e9)
    assert to_report(tmp_path) == profiling
    older = begun(tmp_path, "b", {"note": "profiling"}, written_s=1e9)
    assert to_report(tmp_path) == older
    latest = begun(tmp_path, "a", {}, written_s=1.1e9)
    assert to_report(tmp_path) == to_stop(tmp_path, SystemClock()) == latest
    for alive in (older, profiling):
        with Lease(alive.lease, SystemClock()):
            assert to_stop(tmp_path, SystemClock()) == alive


def test_a_profiling_that_failed_later_is_not_what_is_reported_and_stopped(experiment, tmp_path):
    def answer(*words: str) -> dict:
        done = CliRunner().invoke(main, [*words, "--json"])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    cloud = cloud_table(load_tuning(experiment, price_books=no_books).cloud)
    problem = {"profiling": {}, "cloud": cloud}
    failed = begun(tmp_path / "home", "profile x", problem, written_s=4e9, ending=RunEnding.FAILED)
    assert (answer("report")["run"], answer("stop")["run"]) == (failed.run, failed.run)
    told = answer("run", str(experiment))
    assert answer("report") == told
    assert (answer("stop")["run"], answer("stop")["state"]) == (told["run"], "done")
    assert answer("report", failed.run)["state"] == "failed"
