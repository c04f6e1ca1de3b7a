"""`rb-tune status`, `run --events` and metrics: real runs, logs that are being written, and those that are odd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from small_run import EXPERIMENT, TRAIN

from rb_core.clock import ManualClock, SystemClock
from rb_core.condition import Condition
from rb_core.events import EVENTS
from rb_core.lease import Lease
from rb_plugins.cli import main
from rb_plugins.following import exit_status, follow
from rb_plugins.metrics import write_metrics
from rb_plugins.rundir import RunDirectory
from rb_plugins.streaming import EventStream
from rb_plugins.watched import Watch


def rb_tune(*arguments: object, home: Path):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env={"RB_HOME": str(home)})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run by a process of its own, with its events on standard output and its metrics in a file."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "train_small.py").write_text(TRAIN)
    (folder / "small.toml").write_text(EXPERIMENT)
    home = folder / "home"
    done = subprocess.run(
        [sys.executable, "-m", "rb_plugins", "run", folder / "small.toml", "--events", "--metrics", folder / "m.prom"],
        capture_output=True,
        text=True,
        env={**os.environ, "RB_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    (directory,) = RunDirectory.all(home)
    return directory, done.stdout, folder


@pytest.fixture
def cut(finished, tmp_path):
    """A copy of the run's directory whose log holds only its first lines: a function of how many."""
    directory, _, _ = finished
    copy = RunDirectory(tmp_path / "home" / "runs" / directory.run)
    copy.path.mkdir(parents=True)
    for name in ("problem.json", "plan.json", "request.json"):
        (copy.path / name).write_bytes((directory.path / name).read_bytes())
    lines = directory.events.read_text().splitlines(keepends=True)

    def cut(count: int, more: str = "") -> RunDirectory:
        copy.events.write_text("".join(lines[:count]) + more)
        return copy

    cut.lines, cut.home = lines, tmp_path / "home"
    return cut


def samples(text: str) -> dict[tuple[str, str], float]:
    """Values by the sample's name, and its last label beside the run."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            other = [value for key, value in sorted(sample.labels.items()) if key in ("state", "event")]
            found[sample.name, *other] = sample.value
    return found


def test_events_are_the_lines_of_the_log_and_the_last_line_is_the_answer(finished):
    directory, printed, _ = finished
    *lines, answer = printed.splitlines()
    assert lines == directory.events.read_text().splitlines()
    assert json.loads(answer) == json.loads((directory.path / "outcome.json").read_text())


def test_metrics_of_a_run_are_there_when_it_has_ended(finished):
    directory, _, folder = finished
    found = samples((folder / "m.prom").read_text())
    cost_usd = json.loads((directory.path / "outcome.json").read_text())["actual"]["cost_usd"]
    assert found["rubberband_cost_usd",] == pytest.approx(cost_usd)
    assert found["rubberband_run_state", "done"] == 1.0
    assert found["rubberband_trials", "stopped"] == 2.0
    assert found["rubberband_events_total", "TrialCreated"] == 3.0
    assert {key[1] for key in found if key[0] == "rubberband_events_total"} == {kind.__name__ for kind in EVENTS}
    assert [path.name for path in folder.iterdir() if path.name.startswith("m.prom")] == ["m.prom"]


def test_all_runs_are_listed_with_what_became_of_them(finished, cut):
    cut(20)
    listed = json.loads(rb_tune("status", "--json", home=cut.home).stdout)
    (row,) = listed["runs"]
    assert (row["state"], row["driver"], row["trials_alive"]) == ("killed", None, 3)
    assert row["go_on"] == f"rb-tune run --resume {row['run']}"
    directory, _, _ = finished
    shown = rb_tune("status", home=directory.home).stdout
    assert f"{directory.run}  done   2 of 2" in shown
    assert "there is no run in" in rb_tune("status", home=cut.home / "none").stdout


def test_a_run_is_found_by_the_beginning_of_its_id(finished):
    directory, _, _ = finished
    answer = json.loads(rb_tune("status", "small", "--json", home=directory.home).stdout)
    outcome = json.loads((directory.path / "outcome.json").read_text())
    assert (answer["run"], answer["state"], answer["name"]) == (directory.run, "done", "small")
    assert answer["cost"]["cost_usd"] == outcome["actual"]["cost_usd"]
    assert answer["time"]["elapsed_s"] == outcome["actual"]["jct_s"]
    assert answer["time"]["deadline_kept"] is True
    assert answer["best"]["trial"] == outcome["best"]["trial"]


def test_a_torn_line_is_passed_over_and_nothing_of_the_run_changes(cut):
    directory = cut(20, more=cut.lines[20][:11])
    before = {path: path.read_bytes() for path in directory.path.iterdir()}
    told = rb_tune("status", directory.path, home=cut.home)
    assert told.exit_code == 0
    assert "killed" in told.stdout
    assert {path: path.read_bytes() for path in directory.path.iterdir()} == before


def test_a_log_of_a_newer_version_is_named_and_stops_no_list(cut):
    directory = cut(5, more='{"schema":9,"event":"Danced"}\n')
    listed = rb_tune("status", home=cut.home)
    assert listed.exit_code == 0
    assert "has schema 9, and this version reads schema 1 only" in listed.stdout
    one = rb_tune("status", directory.run, "--json", home=cut.home)
    assert one.exit_code == 1
    assert json.loads(one.stdout)["state"] == "unreadable"
    assert "has schema 9" in one.stderr


def test_the_forecast_of_a_living_run(cut):
    directory = cut(20)
    with Lease(directory.lease, ManualClock()):  # taken before the log was written
        watched = Watch(directory, SystemClock()).look()
        assert watched.condition is Condition.RUNNING
        assert watched.holder is not None
        assert watched.forecast[0] >= watched.elapsed_s
        told = rb_tune("status", "small", home=cut.home).stdout
    assert told.count("go on: rb-tune stop ") == 1
    table = told.partition("Predicted and actual\n")[2].splitlines()
    (whole,) = (row for row in table if row.startswith("all "))
    assert "  0.0 s" not in whole
    assert "(not ended)" in whole


@pytest.mark.parametrize("ending", ["", "interrupted", "failed"])
def test_a_run_that_a_process_is_about_to_go_on_with_is_starting(cut, ending):
    end = {**json.loads(cut.lines[-1]), "ending": ending}
    directory = cut(20, more=json.dumps(end) + "\n" if ending else "")
    with Lease(directory.lease, SystemClock()):
        told = rb_tune("status", directory.run, home=cut.home).stdout
        (row,) = json.loads(rb_tune("status", "--json", home=cut.home).stdout)["runs"]
    assert f"run {directory.run}: starting" in told
    assert f"process {os.getpid()} on " in told
    assert " is about to go on with it\n" in told
    assert (row["state"], row["driver"]["pid"]) == ("starting", os.getpid())
    assert row["go_on"] == f"rb-tune stop {directory.run}"


def test_a_run_that_is_about_to_begin_is_starting_and_has_nothing_to_report_yet(cut):
    directory = cut(0)
    with Lease(directory.lease, SystemClock()):
        assert " is about to begin it\n" in rb_tune("status", directory.run, home=cut.home).stdout
        reported = rb_tune("report", directory.run, home=cut.home)
    assert reported.exit_code == 1
    assert "has not begun yet" in reported.stderr
    assert f"`rb-tune status {directory.run} --follow` shows how it goes" in reported.stderr


@pytest.mark.parametrize("command", [["status"], ["status", "--follow"], ["status", "r"], ["report"], ["stop"]])
@pytest.mark.parametrize("place", ["file", "file/below", "gone"])
def test_a_home_that_is_no_folder_is_refused_with_the_remedy(tmp_path, command, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    refused = rb_tune(*command, home=tmp_path / place)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: RB_HOME: must be a folder, for runs are kept in ")
    assert refused.stderr.endswith("; set it to another\n")


def test_what_cannot_be_found_says_what_to_do_next(cut):
    cut(20)
    for command in (["status", "nosuch"], ["status", "nosuch", "--follow"], ["report", "nosuch"], ["stop", "nosuch"]):
        refused = rb_tune(*command, home=cut.home)
        assert refused.exit_code == 2
        assert refused.stderr.splitlines()[-1].endswith("; `rb-tune status` lists them")


def test_a_log_that_is_a_pipe_is_refused_by_those_who_read_it_whole(cut):
    directory = cut(0)
    directory.events.unlink()
    os.mkfifo(directory.events)
    for command in (["report", directory.run], ["report"], ["run", "--resume", directory.run]):
        refused = rb_tune(*command, home=cut.home)
        assert refused.exit_code in (1, 2)
        assert "events.jsonl is no file; restore it as rb-tune wrote it" in refused.stderr


@pytest.mark.parametrize("time", ["1e400", "1e308"])
def test_a_time_that_nothing_can_have_makes_no_page(cut, time):
    last = json.dumps({**json.loads(cut.lines[-1]), "t_s": "when"}).replace('"when"', time)
    directory = cut(len(cut.lines) - 1, more=last + "\n")
    refused = rb_tune("report", directory.run, "--html", home=cut.home)
    assert refused.exit_code == 1
    assert f"line {len(cut.lines)}: is no RunEnded: t_s: must be a number within 1e+12" in refused.stderr
    assert not (directory.path / "report.html").exists()


def test_a_run_is_followed_until_it_ends_event_by_event(cut):
    directory, clock = cut(10), ManualClock()
    lease = Lease(directory.lease, ManualClock())
    with lease:
        for number in range(11, len(cut.lines) + 1):
            clock.call_at(float(number), lambda number=number: cut(number))
        seen = [(w.condition, len(w.events), w.said) for w in follow(directory, _Mixed(clock))]
    assert sum(count for _, count, _ in seen) == len(cut.lines)
    assert [condition for condition, _, _ in seen[-2:]] == [Condition.RUNNING, Condition.DONE]
    assert seen[-1][2][-1].endswith("] run done")


class _Mixed(ManualClock):
    """A manual clock whose wall clock is real, so that a lease of now is of now."""

    def __init__(self, clock: ManualClock) -> None:
        self.now, self.inbox, self.call_at = clock.now, clock.inbox, clock.call_at
        self.utc, self._name = SystemClock().utc, "mixed"


def test_what_never_begins_is_not_waited_for_without_end(cut):
    directory, clock = cut(0), ManualClock()
    *_, last = follow(directory, clock)
    assert (last.condition, clock.now()) == (Condition.UNBEGUN, 60.0)
    assert exit_status(last) == 1


def test_following_as_json_gives_the_log_and_then_the_status(finished):
    directory, _, _ = finished
    done = rb_tune("status", "--follow", "--json", home=directory.home)
    *lines, answer = done.stdout.splitlines()
    assert done.exit_code == 0
    assert lines == directory.events.read_text().splitlines()
    assert json.loads(answer) == json.loads(rb_tune("status", "small", "--json", home=directory.home).stdout)


@pytest.mark.parametrize(("count", "status"), [(20, 1), (-1, 1)])
def test_a_run_that_was_killed_is_no_longer_followed(cut, count, status):
    directory = cut(count)
    done = rb_tune("status", directory.run, "--follow", home=cut.home)
    assert done.exit_code == status
    assert f"go on: rb-tune run --resume {directory.run}" in done.stdout


def test_ctrl_c_ends_the_watching_alone(cut, monkeypatch):
    directory = cut(20)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rb_plugins.following.pause", interrupt)
    with Lease(directory.lease, SystemClock()):
        done = rb_tune("status", "--follow", home=cut.home)
    assert done.exit_code == 130
    assert f"no longer watched; run {directory.run} goes on" in done.stderr
    assert Watch(directory, SystemClock()).look().condition is Condition.KILLED


def test_labels_are_escaped_and_come_back(cut, tmp_path):
    odd = 'a "b" \\ c\nd'
    record = json.loads(cut.lines[0])
    directory = cut(0, more=json.dumps({**record, "target": odd}) + "\n")
    write_metrics([Watch(directory, SystemClock()).look()], tmp_path / "m.prom")
    families = {family.name: family for family in text_string_to_metric_families((tmp_path / "m.prom").read_text())}
    assert families["rubberband_run_info"].samples[0].labels["target"] == odd


def test_metrics_that_cannot_be_written_are_refused_at_the_start(experiment, tmp_path):
    for file, said in ((tmp_path, "is a folder"), (tmp_path / "gone" / "m.prom", "make ")):
        refused = CliRunner().invoke(main, ["run", str(experiment), "--metrics", str(file)])
        assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert not (tmp_path / "home").exists()


def test_a_reader_that_goes_away_costs_the_run_nothing(experiment, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rb_plugins", "run", experiment, "--events"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writing)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nobody reads standard output any more") == 1
    (directory,) = RunDirectory.all(tmp_path / "home")
    assert json.loads((directory.path / "outcome.json").read_text())["state"] == "done"


def test_a_reader_that_stands_still_is_waited_for_at_the_end_alone(tmp_path):
    reading, writing = os.pipe()
    events = [EVENTS[-2](t_s=0.0, utc="", text="x" * 1000) for _ in range(200)]
    with open(writing, "w") as output, open(reading) as source, EventStream(output) as stream:
        for event in events:  # more than a pipe holds
            stream(event)
        read: Sequence[str] = [source.readline() for _ in events]
    assert len(read) == 200
    assert all(json.loads(text)["text"] == "x" * 1000 for text in read)


@pytest.mark.parametrize(("ending", "status"), [("deadline", 0), ("interrupted", 130), ("failed", 1)])
def test_the_status_of_a_run_that_has_ended_is_that_of_the_run(cut, ending, status):
    end = {**json.loads(cut.lines[-1]), "ending": ending, "reason": "because"}
    directory = cut(len(cut.lines) - 1, more=json.dumps(end) + "\n")
    done = rb_tune("status", directory.run, "--follow", home=cut.home)
    assert done.exit_code == status
    assert f"run {ending}: because" in done.stdout
    assert rb_tune("status", directory.run, home=cut.home).exit_code == 0


def test_metrics_of_all_runs_and_of_one(cut, tmp_path):
    file = tmp_path / "all.prom"
    directory = cut(len(cut.lines))
    for arguments in ([], [directory.run], [directory.run, "--follow"]):
        assert rb_tune("status", *arguments, "--metrics", file, home=cut.home).exit_code == 0
        assert samples(file.read_text())["rubberband_run_state", "done"] == 1.0
        file.unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_metrics_without_their_package_say_how_to_get_it(experiment, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    refused = CliRunner().invoke(main, ["run", str(experiment), "--metrics", str(tmp_path / "m.prom")])
    assert refused.exit_code == 2
    assert "pip install 'rubberband-tune[report]'" in refused.stderr
    assert not (tmp_path / "home").exists()


def test_events_of_a_run_that_fails_end_with_its_answer(experiment, tmp_path):
    experiment.write_text(EXPERIMENT.replace(":train", ":broken"))
    done = CliRunner().invoke(main, ["run", str(experiment), "--events"])
    *_, end, answer = (json.loads(text) for text in done.stdout.splitlines())
    assert (done.exit_code, end["event"], end["ending"]) == (1, "RunEnded", "failed")
    assert answer["state"] == "failed"


def run_in_shell(experiment: Path, redirection: str) -> subprocess.CompletedProcess[str]:
    command = f'"{sys.executable}" -m rb_plugins run "{experiment}" {redirection}'
    return subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("redirection", "said"),
    [
        ("2>/dev/full >/dev/null", ""),
        pytest.param("2>&- >/dev/null", "", marks=pytest.mark.long),
        ("| head -1 >/dev/null", "run done"),
        pytest.param(">&-", "run done", marks=pytest.mark.long),
        ("--events >&-", "run done"),
        ("--json >/dev/full", "standard output cannot be written: No space left on device; `rb-tune report small-"),
    ],
)
def test_a_run_that_cannot_print_is_done_all_the_same(experiment, tmp_path, redirection, said):
    done = run_in_shell(experiment, redirection)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "fault of rb-tune" not in done.stderr
    (directory,) = RunDirectory.all(tmp_path / "home")
    assert json.loads((directory.path / "outcome.json").read_text())["state"] == "done"


def test_an_answer_that_cannot_be_printed_is_an_error(tmp_path):
    command = [sys.executable, "-m", "rb_plugins", "catalog", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output cannot be written: No space left on device\n")


def test_names_that_the_output_has_no_letters_for_are_shown_as_escapes(cut):
    directory = cut(len(cut.lines))
    directory.events.write_text(directory.events.read_text().replace('"accuracy"', '"accur\u2192cy"'))
    done = subprocess.run(
        [sys.executable, "-m", "rb_plugins", "status", directory.run],
        capture_output=True,
        env={**os.environ, "RB_HOME": str(cut.home), "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.returncode, b"accur\\u2192cy" in done.stdout) == (0, True)


@pytest.mark.parametrize("name", ["events.jsonl", "lease.json"])
@pytest.mark.parametrize("odd", ["pipe", "deep"])
def test_files_that_are_none_stop_no_list(cut, name, odd):
    directory = cut(len(cut.lines))
    file = directory.path / name
    file.unlink(missing_ok=True)
    if odd == "pipe":
        os.mkfifo(file)
    else:
        file.write_text("[" * 100_000 + "\n")
    (run,) = json.loads(rb_tune("status", "--json", home=cut.home).stdout)["runs"]
    assert run["state"] == ("done" if name == "lease.json" else "unreadable")


def test_a_stage_that_no_plan_has_is_told(cut):
    odd = [text.replace('"stage": 1', '"stage": 7').replace('"stage":1', '"stage":7') for text in cut.lines]
    directory = cut(0, more="".join(odd))
    done = rb_tune("status", directory.run, home=cut.home)
    assert done.exit_code == 1
    assert "never introduced" in done.stdout + done.stderr
