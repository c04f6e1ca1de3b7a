"""What is looked at before a run goes on, and that nothing is touched where it may not."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy.stats import uniform

from rb_core.clock import SystemClock
from rb_core.condition import Condition
from rb_core.errors import InvalidInput, RunInterrupted, UnusableLog
from rb_core.eventlog import line, read_log
from rb_core.events import RunResumed, RunStarted, StageEnded, StageStarted, TrialCreated, TrialReported, TrialSaved
from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.launchers.process import ProcessLauncher
from rb_core.lease import Holder
from rb_core.plan import Objective
from rb_core.profile import ScalingProfile
from rb_core.spec import ExperimentSpec
from rb_plugins import Session, make_manager
from rb_plugins.cli import main
from rb_plugins.rundir import RunDirectory
from rb_plugins.terms import Terms
from rb_plugins.watched import Watch

NOBODY = 65534

TRAIN = """
def train(config, trial):
    trial.load()
    config["depth"]
    for _ in trial.iterations():
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "state").write_text("kept")
"""

EXPERIMENT = """
name = "small"
[train]
target = "train_module:train"
metric = "accuracy"
seed = 7
[space]
x = {uniform = [0, 1]}
depth = [1, 2]
[experiment]
stages = [{trials = 3, iterations = 2}, {trials = 1, iterations = 2}]
[profile]
iteration_s = {1 = 0.02}
[cloud]
instance_types = [{name = "core", slots = 1, usd_per_hour = 0.17}]
max_nodes = 1
billing = {minimum_s = 0}
[run]
launcher = "process"
[objective]
deadline_s = "10m"
confidence = 0.9
"""


def a_session(folder: Path) -> Session:
    return Session(manager=make_manager(autoload=False), directory=folder / "home")


def interrupting(event: object) -> None:
    """An observer at whose side a user presses Ctrl-C when the second stage begins."""
    if isinstance(event, StageStarted) and event.stage == 1:
        raise KeyboardInterrupt


def begin(session: Session, file: Path) -> RunDirectory:
    tuning = session.load_tuning(file)
    with session.launcher(tuning.launcher, tuning.target) as launcher:
        planned = session.plan(session.problem(tuning, tuning.profile))
        directory = session.create(tuning, planned)
        with pytest.raises(RunInterrupted) as caught:
            session.run(tuning, planned, launcher, directory=directory, observers=[interrupting])
    assert caught.value.__notes__ == [f"go on with it: rb-tune run --resume {directory.run}"]
    return directory


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A folder with a training module, an experiment file and a home with one run, interrupted in its second stage."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "train_module.py").write_text(TRAIN)
    (folder / "small.toml").write_text(EXPERIMENT)
    begin(a_session(folder), folder / "small.toml")
    return folder


@pytest.fixture
def folder(original, tmp_path) -> Path:
    """The same at another place."""
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    for file in (folder / "home").rglob("*.json*"):
        file.write_text(file.read_text().replace(str(original), str(folder)))
    return folder


@pytest.fixture
def directory(folder) -> RunDirectory:
    (path,) = (folder / "home" / "runs").iterdir()
    return RunDirectory(path)


@pytest.fixture
def refused(folder, directory):
    """Check that the run does not go on, with such words, and that its directory is as it was."""

    def refused(message: str, **terms: object) -> None:
        before = contents(directory)
        with pytest.raises(InvalidInput, match=message):
            a_session(folder).resume(directory.run, **terms)
        assert contents(directory) == before

    return refused


def contents(directory: RunDirectory) -> dict[str, bytes]:
    files = [path for path in directory.path.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory.path)): path.read_bytes() for path in files}


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_it_goes_on_with_all_that_was_recorded(folder, directory):
    first = read_log(directory.events).events
    seen = []
    outcome = a_session(folder).resume(directory.path, observers=[seen.append])
    events = read_log(directory.events).events
    assert outcome.ending == "done"
    assert events[: len(first)] == first
    assert list(events[len(first) :]) == seen
    assert isinstance(seen[0], RunResumed)
    assert (seen[0].problem, seen[0].clock) == (first[0].problem, SystemClock().origin)
    assert [event.stage for event in events if isinstance(event, StageEnded)] == [0, 1]
    assert outcome.best.config["x"] == max(trial.config["x"] for trial in outcome.state.trials.values())
    assert outcome.problem.objective == Objective(deadline_s=600.0, confidence=0.9)
    assert json.loads((directory.path / "outcome.json").read_text()) == outcome.table()


@pytest.mark.parametrize("how", ["session", "command"])
def test_it_is_starting_from_before_the_launcher_is_until_it_has_written_that_it_goes_on(
    folder, directory, monkeypatch, how
):
    seen = []
    enter = ProcessLauncher.__enter__

    def look(*_: object) -> None:
        seen.append(Watch(directory, SystemClock()).look().condition)

    def entered(launcher: ProcessLauncher) -> ProcessLauncher:
        look()
        return enter(launcher)

    monkeypatch.setattr(ProcessLauncher, "__enter__", entered)
    look()
    if how == "session":
        a_session(folder).resume(directory.run, observers=[look])
        assert seen[2:] == [Condition.RUNNING] * (len(seen) - 3) + [Condition.DONE]
    else:
        done = CliRunner().invoke(main, ["run", "--resume", directory.run], env={"RB_HOME": str(folder / "home")})
        assert done.exit_code == 0, done.stderr
    assert seen[:2] == [Condition.INTERRUPTED, Condition.STARTING]
    assert not directory.lease.exists()


def test_a_new_objective_takes_the_place_of_the_old_one_and_keeps_its_confidence(folder, directory):
    going = a_session(folder).resumable(directory.run, Terms(budget_usd=5.0, max_usd=9.0, on_deadline="stop"))
    assert going.request.problem.objective == Objective(budget_usd=5.0, confidence=0.9)
    assert (going.request.max_usd, going.request.on_deadline.value, going.request.replan) == (9.0, "stop", True)
    assert going.request.record["objective"] == {"budget_usd": 5.0, "confidence": 0.9}
    assert a_session(folder).resumable(directory.run, Terms()).request.replan


def test_a_deadline_that_can_no_longer_be_kept_is_told_with_what_can_be_done(folder, directory):
    session = a_session(folder)

    def late(**terms: object) -> str:
        return session.resumable(directory.run, Terms(**terms)).late

    assert late() == ""
    changed(directory.events, '"mean":0.02', '"mean":1000.0')
    assert late(deadline_s=3000.0) == late(budget_usd=5.0) == ""
    told = late(deadline_s=1000.0)
    assert re.match(
        r"the deadline of 16 min 40 s can no longer be kept: .* are gone since the run began, and the rest takes "
        r"33 min 2. s, so it would end at the soonest 16 min 4. s late; it is finished all the same; --deadline gives "
        r"it a later one, of 33 min 2. s or more, and --on-deadline stop ends it then$",
        told,
    )
    stops = late(deadline_s=1000.0, on_deadline="stop")
    assert stops.endswith(" or more, and --on-deadline finish lets it go on")
    assert "; it stops at its deadline; " in stops
    changed(directory.events, '"deadline_s":600.0', '"deadline_s":0.001')
    assert late().startswith("the deadline of 0.0 s has passed: ")
    changed(directory.request, '"replan": true', '"replan": false')
    assert ", so it would end as it is planned 33 min " in late()


def test_a_changed_training_file_is_refused(refused, folder):
    changed(folder / "train_module.py", '"kept"', '"other"')
    refused(r"^train\.target: .*train_module\.py has changed since the run began, .*; restore it, or start a new run$")


def test_a_training_file_that_is_gone_is_refused(refused, folder):
    (folder / "train_module.py").unlink()
    refused(r"^train\.target: .*train_module\.py cannot be read any more")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x = {uniform = [0, 1]}", "x = {uniform = [0, 2]}", r"^space\.x: .* from {'uniform': \[0, 1\]} to {'u"),
        ("depth = [1, 2]", "", r"^space\.depth: has changed since the run began, from \[1, 2\] to nothing in"),
        ("depth = [1, 2]", "depth = [1, 2]\nwidth = [3]", r"^space\.width: .*from nothing to \[3\] in"),
        ("trials = 3", "trials = 4", r"^experiment: .* from 3 x 2, 1 x 2 to 4 x 2, 1 x 2 in .*; restore it"),
        ("seed = 7", "seed = 8", r"^train\.seed: .* from 7 to 8"),
        ('"accuracy"', '"loss"', r"^train\.metric: .* from 'accuracy' to 'loss'"),
        ('"accuracy"', '"accuracy"\nmode = "min"', r"^train\.mode: .* from 'max' to 'min'"),
        ("train_module:train", "train_module:other", r"^train\.target: .* from 'train_module:train' to 'train_m"),
        ("[space]", "[spice]", r"^spice: is not a known key; did you mean space\?"),
    ],
)  # fmt: skip
def test_a_changed_experiment_is_refused_and_what_changed_is_named(refused, folder, old, new, message):
    changed(folder / "small.toml", old, new)
    refused(message)


def test_what_is_not_compared_may_change_and_the_file_may_be_gone(folder, directory):
    changed(folder / "small.toml", '"10m"', '"20m"')
    going = a_session(folder).resumable(directory.run, Terms())
    assert going.request.problem.objective.deadline_s == 600.0
    (folder / "small.toml").unlink()
    assert a_session(folder).resumable(directory.run, Terms()).request == going.request


def test_a_run_that_is_done_is_refused(refused, folder, directory):
    a_session(folder).resume(directory.run)
    refused(rf"^RUN: run {directory.run} has come to its end; `rb-tune report {directory.run}` tells of it$")


def test_a_run_at_work_on_another_machine_is_refused(refused, directory):
    there = dataclasses.replace(Holder.here(SystemClock().utc()), host="elsewhere")
    directory.lease.write_text(json.dumps({"schema": 1, **dataclasses.asdict(there)}))
    refused(
        r"^RUN: .* is alive: process \d+ on elsewhere is at work on it; wait for it to end, or stop it there; if it"
    )


def test_a_run_whose_log_is_locked_is_left_alone(folder, directory):
    session = a_session(folder)
    going = session.resumable(directory.run, Terms())
    before = contents(directory)

    def at_work(event):
        with pytest.raises(UnusableLog, match="is being written by another process"):
            session.go_on(going, session.launcher(going.launcher, going.target))

    session.resume(directory.run, observers=[at_work])
    assert session.report(directory.run).state.warnings == []
    assert contents(directory) != before
    with pytest.raises(UnusableLog, match=r"another process has been at work on run .* meanwhile; look at it again"):
        session.go_on(going, session.launcher(going.launcher, going.target))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{"schema":1,"event":"StageS', '{"schema":2,"event":"StageS', r"schema 2, and this version reads"),
        ('"event":"StageEnded"', '"event":"StageOver"', r"line \d+: has an unknown event 'StageOver'; restore"),
        ('"event":"StageEnded"', '"event":"StageEnded', r"line \d+: is not JSON; restore the file"),
        ('"trial":2,', '"trial":9,', r"speaks of what it never introduced .* restore the file as rb-tune wrote it"),
        ('"max_nodes":1', '"max_nodes":0', r"the run's problem or plan is not whole: cloud\.max_nodes: must be"),
    ],
)  # fmt: skip
def test_a_log_that_was_edited_or_is_of_another_version_is_refused(refused, directory, old, new, message):
    changed(directory.events, old, new)
    refused(rf"^RUN: .*{message}")


def test_a_log_that_lacks_lines_is_refused(refused, directory):
    lines = directory.events.read_text().splitlines(keepends=True)
    directory.events.write_text("".join(line for line in lines if '"event":"TrialPaused"' not in line))
    refused("^RUN: the log of run .* restore the file")
    directory.events.write_text("".join(lines[1:]))
    refused("^RUN: event log .* holds no run: it must begin with the start of one; restore it as rb-tune wrote it, or ")
    directory.events.write_text("")
    refused(r"^RUN: event log .* is empty or gone, and yet .*checkpoints holds checkpoints of the run; restore the log")
    directory.events.unlink()
    refused(r"^RUN: event log .* is empty or gone")


def test_a_log_whose_survivors_were_edited_is_refused(refused, directory):
    log = directory.events.read_text()
    (ended,) = (event for event in read_log(directory.events).events if isinstance(event, StageEnded))
    for others in ((77,), (*ended.survivors, 77), (*ended.survivors, *ended.survivors), ended.stopped[:1]):
        directory.events.write_text(log.replace(line(ended), line(dataclasses.replace(ended, survivors=others))))
        refused("^RUN: the log of run .* restore the file as rb-tune wrote it$")


@pytest.mark.parametrize("utc", ["yesterday", ""])
def test_a_log_of_another_boot_whose_last_time_is_none_is_refused(refused, directory, utc):
    events = read_log(directory.events).events
    for event in (events[0], events[-1]):
        edited = dataclasses.replace(event, **({"clock": "another"} if event is events[0] else {"utc": utc}))
        changed(directory.events, line(event), line(edited))
    refused(f"^RUN: the log ends with an event of the time '{utc}', which is none: it was edited; restore the file")


def test_the_best_score_is_told_with_the_iterations_that_it_was_told_after(folder, directory):
    events = read_log(directory.events).events
    saved = max(number for number, event in enumerate(events) if isinstance(event, TrialSaved))
    told = dataclasses.replace(
        next(event for event in reversed(events) if isinstance(event, TrialReported)), iterations=3, score=9.0
    )
    directory.events.write_text("".join(map(line, (*events[: saved + 1], told))))
    best = a_session(folder).report(directory.run).best
    assert (best.trial, best.score, best.iterations) == (told.trial, 9.0, 3)
    assert (best.checkpoint_iterations, best.behind) == (2, "after 2 iterations, not 3")


def test_a_report_on_a_log_that_lacks_lines_says_so(folder, directory):
    lines = directory.events.read_text().splitlines(keepends=True)
    directory.events.write_text("".join(text for text in lines if '"event":"NodeRequested"' not in text))
    with pytest.raises(UnusableLog, match=r"speaks of what it never introduced .* restore the file"):
        a_session(folder).report(directory.run)


def test_records_of_two_runs_are_refused(refused, directory):
    changed(directory.request, '"accuracy"', '"loss"')
    refused(r"^RUN: .*request\.json and .*events\.jsonl are not of one run; restore both as rb-tune wrote them$")


def test_limits_that_are_passed_already_are_refused(refused):
    refused(r"^deadline_s: must be later: since the run began .* have passed, and a deadline counts", deadline_s=1e-3)
    refused(r"^budget_usd: must be above the .* usd that the run has cost so far$", budget_usd=1e-12)
    refused(r"^max_usd: must be above the .* usd that the run has cost so far$", max_usd=1e-12)
    refused(r"^deadline_s: must be left out where a budget is given", deadline_s=9.0, budget_usd=1.0)
    refused(r"^max_usd: must be a finite number above 0", max_usd=-1.0)
    refused(r"^on_deadline: must be one of finish, stop; got 'later'", on_deadline="later")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody, where tests are run by root, whom no permission stops."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_directory_without_permission_is_refused(directory, folder):
    session = a_session(folder)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "run"
        shutil.copytree(directory.path, place)
        place.parent.chmod(0o755)
        before = contents(RunDirectory(place))
        place.chmod(0o000)
        with (
            unprivileged(),
            pytest.raises(InvalidInput, match=r"^RUN: .* cannot be entered: Permission denied; do this"),
        ):
            session.resume(place)
        (place / "events.jsonl").chmod(0o444)
        place.chmod(0o555)
        with (
            unprivileged(),
            pytest.raises(InvalidInput, match=r"^RUN: .*run cannot be written to by this user, so the"),
        ):
            session.resume(place)
        place.chmod(0o700)
        assert contents(RunDirectory(place)) == before


def test_killed_while_the_first_events_were_written_it_begins_or_goes_on(folder, directory):
    """Cut at the edges and in the middle of what is written before the first node is requested."""
    log = directory.events.read_bytes()
    lines = log.splitlines(keepends=True)
    assert b"TrialCreated" in lines[3]
    assert b"StageStarted" in lines[4]
    sizes = [0]
    for text in lines[:5]:
        sizes += [sizes[-1] + len(text) // 2, sizes[-1] + len(text)]
    configs = {
        event.trial: event.config for event in read_log(directory.events).events if isinstance(event, TrialCreated)
    }
    for size in sizes:
        shutil.rmtree(directory.checkpoints)
        directory.events.write_bytes(log[:size])
        outcome = a_session(folder).resume(directory.run)
        events = read_log(directory.events).events
        assert outcome.ending == "done"
        assert [type(event) for event in events].count(RunStarted) == 1
        assert [event.trial for event in events if isinstance(event, TrialCreated)] == [0, 1, 2]
        assert {trial.trial: trial.config for trial in outcome.state.trials.values()} == configs
        assert outcome.state.resumed == (size >= len(lines[0]))


def test_a_run_that_never_began_is_reported_as_that(folder, directory):
    shutil.rmtree(directory.checkpoints)
    directory.events.write_text('{"schema":1,"event":"RunSta')
    for _ in range(2):
        with pytest.raises(UnusableLog, match=r"was ended before it began, so .*`rb-tune run --resume .*` begins it$"):
            a_session(folder).report(directory.run)
        directory.events.unlink(missing_ok=True)
    assert a_session(folder).resume(directory.run).ending == "done"


def tune(session: Session, train: object, **options: object):
    return session.tune(
        train,
        {"x": uniform(0, 1)},
        ExperimentSpec.from_stages([(3, 2), (1, 2)]),
        Cloud(
            instance_types=(InstanceType(name="core", slots=1, usd_per_hour=0.17),),
            max_nodes=1,
            billing=Billing(minimum_s=0),
        ),
        Objective(deadline_s=3600.0),
        launcher="process",
        profile=ScalingProfile(iteration_s={1: Latency(mean=0.01)}),
        **options,
    )


def train(config, trial):
    """A training function in a module that other processes find."""
    trial.load()
    for _ in trial.iterations():
        trial.report(config["x"])
        if trial.save_due:
            with trial.save() as folder:
                (folder / "state").write_text("kept")


def test_a_function_of_a_module_is_found_again(tmp_path):
    with pytest.raises(RunInterrupted):
        tune(a_session(tmp_path), train, observers=[interrupting])
    run = a_session(tmp_path).report().state.run
    assert a_session(tmp_path).resume(run).ending == "done"


def test_a_function_that_cannot_be_found_again_must_be_given(tmp_path, capsys):
    def inner(config, trial):
        train(config, trial)

    session = a_session(tmp_path)
    with pytest.raises(RunInterrupted):
        tune(session, inner, observers=[interrupting], progress=True)
    assert "stage 0: 3 trials x 2 iterations on 1 core" in capsys.readouterr().err
    run = session.report().state.run
    with pytest.raises(
        InvalidInput, match=r"inner was given from Python, .*; resume the run from there, .*train=\.\.\."
    ):
        session.resume(run)
    outcome = session.resume(run, inner, progress=True)
    assert outcome.ending == "done"
    assert f"run {run} goes on: 1 of 2 stages are done" in capsys.readouterr().err
