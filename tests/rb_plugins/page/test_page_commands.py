"""`--html` of `plan`, `rehearse`, `run`, `report` and `profile`, and what their pages say of repeating them."""

import json
import os
import shlex
import signal
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from page_reading import Reading
from slow_run import SlowRun
from worked_problem import PROBLEM

from rb_core.clock import SystemClock
from rb_core.lease import Lease
from rb_core.report import duration, money
from rb_plugins.cli import main
from rb_plugins.page.document import write_text
from rb_plugins.page.pages import check_page


def _asked(*words, status=0):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.stderr
    return result


@pytest.fixture
def problem(tmp_path):
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(PROBLEM))
    return path


@pytest.fixture
def cut(experiment):
    """A run that is done, and whose log then loses its last lines: the page that is made of it, and its directory."""
    told = json.loads(_asked("run", experiment, "--json").stdout)
    directory = Path(told["run_dir"])

    def cut(lines: int):
        log = directory / "events.jsonl"
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:-lines]))
        _asked("report", told["run"], "--html")
        return Reading(directory / "report.html")

    return cut, directory


def test_a_plan_and_its_rehearsal_are_pages(problem, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(_asked("plan", problem, "--json", "--html", tmp_path / "plan.html").stdout)
    _asked("rehearse", problem, "--plan", plan, "--seeds", 2, "--seed", 7, "--html", tmp_path / "rehearsal.html")
    planned, rehearsed = ((tmp_path / name).read_text() for name in ("plan.html", "rehearsal.html"))
    assert "planned, nothing has run" in planned
    assert 'id="curves"' not in planned
    expected = json.loads(plan.read_text())["expected"]
    for written in (planned, rehearsed):
        assert duration(expected["jct_s"]) in written
        assert money(expected["cost_usd"]) in written


def test_what_a_plans_page_holds_gives_the_same_page_again(problem, tmp_path):
    first, again = tmp_path / "first.html", tmp_path / "again.html"
    said = _asked("plan", problem, "--planner", "greedy", "--samples", 50, "--seed", 3, "--html", first).stdout
    page = Reading(first)
    problem.write_text(page.texts[str(problem)])
    assert _asked(*shlex.split(page.fact("command"))[1:], "--html", again).stdout == said
    assert again.read_text() == first.read_text()


def test_what_a_rehearsals_page_holds_gives_the_same_page_again(problem, tmp_path):
    plan, faults = tmp_path / "plan.json", tmp_path / "faults.json"
    plan.write_text(_asked("plan", problem, "--json").stdout)
    faults.write_text(json.dumps({"trial_failure": 0.5}))
    first, again = tmp_path / "first.html", tmp_path / "again.html"
    given = ("--plan", plan, "--faults", faults, "--seeds", 2, "--seed", 5, "--html")
    _asked("rehearse", problem, *given, first)
    page = Reading(first)
    for path, text in page.texts.items():
        Path(path).write_text(text)
    assert {str(problem), str(plan), str(faults)} == set(page.texts)
    _asked(*shlex.split(page.fact("command"))[1:], "--html", again)
    assert again.read_text() == first.read_text()


def test_the_page_of_a_run_lies_in_its_directory_or_where_it_is_wanted(experiment, tmp_path):
    result = _asked("run", experiment, "--json", "--html", tmp_path / "here.html")
    told = json.loads(result.stdout)
    assert result.stderr.endswith("here.html\n")
    assert _asked("report", told["run"], "--html").stderr.endswith("report.html\n")
    written = (tmp_path / "here.html").read_text()
    assert (Path(told["run_dir"]) / "report.html").read_text() == written
    page = Reading(tmp_path / "here.html")
    assert page.title == f"{told['run']}: done"
    assert page.notice == ""
    assert f"{told['best']['score']:.5g}" in written
    whole = next(row for row in page.rows["stages"] if row[0] == "all")
    assert whole[2].split("\n")[0] == duration(told["actual"]["jct_s"])
    assert whole[4].split("\n")[0] == money(told["actual"]["cost_usd"])


def test_what_a_runs_page_holds_repeats_the_run(experiment, tmp_path):
    file = tmp_path / "page.html"
    options = ("--planner", "static", "--deadline", "9m", "--max-usd", 1.5, "--on-deadline", "stop")
    told = json.loads(_asked("run", experiment, *options, "--json", "--html", file).stdout)
    page = Reading(file)
    assert page.fact("command") == shlex.join(["rb-tune", "run", str(experiment), *map(str, options)])
    experiment.write_text(page.texts["small.toml, as the run read it"])
    again = json.loads(_asked(*shlex.split(page.fact("command"))[1:], "--json").stdout)
    assert [trial["config"] for trial in again["trials"]] == [trial["config"] for trial in told["trials"]]
    assert [trial["score"] for trial in again["trials"]] == [trial["score"] for trial in told["trials"]]
    assert again["predicted"] == told["predicted"]
    planned = tmp_path / "planned.json"
    planned.write_text(page.texts["the problem as it was planned, for `rb-tune plan`"])
    answer = json.loads(_asked("plan", planned, "--planner", "static", "--json").stdout)
    assert answer["simulated"]["jct_s"] == pytest.approx(told["predicted"]["jct_s"])
    assert page.fact("python").startswith("3.")
    assert page.fact("paid by the hour") == "core 0.17 usd/h (on demand)"
    assert page.fact("wanted") == f"a deadline of {duration(540)}"


def test_a_run_that_fails_has_its_page_with_the_reason(altered, tmp_path):
    altered = altered("train_small.py:train", "train_small.py:broken")
    result = _asked("run", altered, "--html", tmp_path / "page.html", status=1)
    assert "the page is" in result.stderr
    page = Reading(tmp_path / "page.html")
    assert page.title.endswith(": failed")
    assert page.notice.startswith("It failed: ")
    assert any("trial failed" in row[1] and "boom" in row[3] for row in page.rows["faults"][1:])


def test_a_run_that_is_interrupted_and_goes_on_has_its_page_both_times(tmp_path):
    slow = SlowRun(tmp_path)
    process = slow.begin("run", slow.file, "--html", until="stage 1")
    process.send_signal(signal.SIGINT)
    status, _ = slow.end(process)
    assert status == 130
    page = Reading(slow.directory / "report.html")
    assert page.title == f"{slow.run}: interrupted"
    assert f"`rb-tune run --resume {slow.run}` goes on with it." in page.notice
    assert page.rows["stages"][2][2].endswith("so far")
    assert page.rows["stages"][3][2] == "not begun"
    slow.hurry()
    again = slow.command("run", "--resume", slow.run, "--html", tmp_path / "again.html")
    assert again.exit_code == 0, again.stderr
    page = Reading(tmp_path / "again.html")
    assert page.title == f"{slow.run}: done"
    told = [row[1] for row in page.rows["faults"]]
    assert told.index("\u25a0 ended: interrupted") < told.index("\u00bb resumed")
    assert page.fact("resumed") == "once, as its marks tell"


@pytest.mark.parametrize("lines", [1, 4, 9])
def test_the_page_of_a_run_that_was_killed_says_so_and_shows_what_is_there(cut, lines):
    cut, directory = cut
    page = cut(lines)
    assert page.title == f"{directory.name}: cut short"
    assert "no process is at work on it" in page.notice
    assert f"rb-tune run --resume {directory.name}" in page.notice
    assert page.rows["time"]
    assert page.rows["curves"]


def test_the_page_of_a_run_that_goes_on_says_who_is_at_work_and_as_of_when(cut):
    cut, directory = cut
    with Lease(directory / "lease.json", SystemClock()):
        page = cut(9)
    last = json.loads((directory / "events.jsonl").read_text().splitlines()[-1])
    assert page.title == f"{directory.name}: running"
    assert "is at work on it" in page.notice
    assert last["utc"] in page.notice
    assert any(cell.endswith("so far") for row in page.rows["stages"] for cell in row)


@pytest.mark.parametrize("command", ["run", "profile"])
def test_a_page_that_could_not_be_written_is_refused_before_anything_runs(experiment, tmp_path, command):
    for file in (tmp_path / "no" / "page.html", tmp_path):
        assert "--html" in _asked(command, experiment, "--html", file, status=2).stderr
    assert not (tmp_path / "home" / "runs").exists()


@pytest.mark.parametrize("place", ["no/page.html", ".", "file/page.html", "x" * 300])
def test_a_page_that_could_not_be_written_is_refused_before_anything_is_read(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    for command in (["plan", "missing.json"], ["rehearse", "missing.json", "--plan", "missing.json"]):
        assert "error: --html: " in _asked(*command, "--html", place, status=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_page_in_a_folder_of_others_is_refused_before_anything_is_fetched(experiment, tmp_path, monkeypatch):
    run = json.loads(_asked("run", experiment, "--json").stdout)["run"]
    monkeypatch.setattr("os.access", lambda path, mode, **_: Path(path) != tmp_path)
    refused = _asked("report", run, "--fetch", tmp_path / "best", "--html", tmp_path / "page.html", status=2)
    assert refused.stderr == (
        f"error: --html: {tmp_path}/page.html cannot be written: {tmp_path} cannot be written to by this user; name "
        "another file\n"
    )
    assert not (tmp_path / "best").exists()


def test_a_page_takes_the_place_of_another_only_when_it_is_whole(tmp_path):
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(page)
    write_text("one", link)
    page.chmod(0o640)
    with pytest.raises(UnicodeEncodeError):
        write_text("half of it, and then \ud800", link)
    assert page.read_text() == "one"
    write_text("two", link)
    assert (page.read_text(), link.is_symlink(), stat.S_IMODE(page.stat().st_mode)) == ("two", True, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "page.html"]


def test_a_page_goes_through_a_pipe_that_is_there(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    try:
        check_page(pipe)
        write_text("page", pipe)
        assert os.read(reader, 99) == b"page"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_page_of_a_plan_that_cannot_be_written_is_said(problem, tmp_path):
    said = _asked("plan", problem, "--html", tmp_path / "no" / "plan.html", status=2).stderr
    assert "--html" in said
    assert "there is no folder" in said


def test_a_profiling_is_a_page_at_once_and_from_its_directory(experiment, tmp_path):
    result = _asked("profile", experiment, "--slots", 1, "--json", "--html", tmp_path / "page.html")
    told = json.loads(result.stdout)
    (directory,) = (tmp_path / "home" / "runs").iterdir()
    _asked("report", directory, "--html")
    page, kept = Reading(tmp_path / "page.html"), Reading(directory / "report.html")
    assert page.fact("command") == shlex.join(["rb-tune", "profile", str(experiment), "--slots", "1"])
    assert page.rows["scaling"] == kept.rows["scaling"]
    starts = [row for row in page.rows["scaling"] if len(row) == 6][1:]
    assert [row[0] for row in starts] == [str(start["slots"]) for start in told["measurements"]]
    assert json.loads(kept.texts[str(directory / "profile.json")]) == json.loads(
        (directory / "profile.json").read_text()
    )
