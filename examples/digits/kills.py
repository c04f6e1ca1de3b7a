"""Kills the digits run with SIGKILL at moments spread over its life, and resumes it each time.

    python examples/digits/kills.py [--moments 10] [--small] [--profile FILE]

One run is left alone; the others must end with the same winner and the same number of completed stages, go on from the
last checkpoints of their trials, and leave no process behind, neither when they are killed nor at their end. --small
tunes 6 networks for at most 9 epochs instead of 27 for at most 54. Without a profile file the function is measured
once, before the first run. Prints one JSON object; ends with 1 where anything is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import psutil

from rb_core.eventlog import read_log
from rb_core.events import (
    Event,
    NodeLost,
    NodeReleased,
    NodeRequested,
    RunResumed,
    StageEnded,
    TrialReported,
    TrialSaved,
    TrialStarted,
)

HERE = Path(__file__).parent
FULL = "successive_halving = {n = 27, r = 3, R = 54, eta = 3}"
SMALL = "successive_halving = {n = 6, r = 1, R = 9, eta = 3}"
MEASURING = '[profile]\nslots = [1, 2]\nbudget_s = "25s"\n'
CHECKPOINTS = 'checkpoint_every_s = "2s"'
LOOK_EVERY_S = 0.005
ENDING_S = 60.0


class Digits:
    """The example in a folder of its own, and all processes that come of it.

    Attributes:
        mark: what all of these carry in their environment.
    """

    def __init__(self, folder: Path, *, small: bool, profile: Path | None) -> None:
        self.mark = f"digits-{uuid.uuid4().hex}"
        self._folder = folder
        self._file = folder / "digits.toml"
        shutil.copy(HERE / "train.py", folder)
        text = (HERE / "digits.toml").read_text(encoding="utf-8")
        if profile is None:
            self._file.write_text(text, encoding="utf-8")
            self.command("profile", self._file, "-o", folder / "profile.json", home="profile")
        else:
            shutil.copy(profile, folder / "profile.json")
        text = replaced(text, MEASURING, "")
        text = replaced(text, 'launcher = "ddp"', f'launcher = "ddp"\n{CHECKPOINTS}')
        if small:
            text = replaced(text, FULL, SMALL)
        self._file.write_text('profile = "profile.json"\n' + text, encoding="utf-8")

    def start(self, *arguments: object, home: str) -> subprocess.Popen[str]:
        """Start `rb-tune`."""
        return subprocess.Popen(
            [sys.executable, "-m", "rb_plugins", *map(str, arguments), "--json"],
            env={**os.environ, "RB_HOME": str(self._folder / home), "RB_KILLS": self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *arguments: object, home: str) -> dict:
        """Let `rb-tune` come to its end, and take its answer."""
        process = self.start(*arguments, home=home)
        answer, errors = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"rb-tune {' '.join(map(str, arguments))} ended with {process.returncode}:\n{errors}")
        return json.loads(answer)

    def run(self) -> dict:
        """A run that nobody disturbs."""
        return self.command("run", self._file, home="undisturbed")

    def killed(self, home: str, reports: int) -> Path:
        """The directory of a run that was killed once its log held so many scores, with no process left."""
        process = self.start("run", self._file, home=home)
        runs = self._folder / home / "runs"
        never = threading.Event()
        while process.poll() is None:
            logs = list(runs.glob("*/events.jsonl"))
            if logs and logs[0].read_bytes().count(b'"event":"TrialReported"') >= reports:
                break
            never.wait(LOOK_EVERY_S)
        process.kill()
        _, errors = process.communicate()
        if process.returncode >= 0:
            raise SystemExit(f"the run ended by itself, before {reports} scores:\n{errors}")
        self.check_none_is_left()
        return next(runs.iterdir())

    def resumed(self, home: str, directory: Path) -> dict:
        """Resume a run and let it come to its end, with no process left."""
        answer = self.command("run", "--resume", directory, home=home)
        self.check_none_is_left()
        return answer

    def check_none_is_left(self) -> None:
        """Wait for the processes that carry the mark; killed ones take their time to be collected."""
        _, left = psutil.wait_procs(list(marked(self.mark)), timeout=ENDING_S)
        if left:
            raise SystemExit(f"processes are left: {left}")


def replaced(text: str, old: str, new: str) -> str:
    """`text` with `old`, which must be in it, replaced."""
    if old not in text:
        raise SystemExit(f"digits.toml does not hold {old!r} any more")
    return text.replace(old, new)


def marked(mark: str) -> list[psutil.Process]:
    """All living processes with the mark in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RB_KILLS") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            continue
    return found


def of(kind: type[Event], events: list[Event]) -> list:
    """The events of a kind."""
    return [event for event in events if isinstance(event, kind)]


def moments(events: list[Event], count: int) -> list[tuple[float, int]]:
    """Moments in the middle of equal parts of a run's life: its seconds, and how many scores its log holds by then."""
    end_s = events[-1].t_s
    times = [end_s * (number + 0.5) / count for number in range(count)]
    return [(t_s, sum(report.t_s <= t_s for report in of(TrialReported, events))) for t_s in times]


def problems(events: list[Event], answer: dict, undisturbed: dict) -> list[str]:
    """What is not as it must be of a run that was killed and resumed."""
    found = []
    if answer["state"] != "done":
        found.append(f"it is {answer['state']}")
    if (answer["best"]["trial"], answer["best"]["config"]) != (
        undisturbed["best"]["trial"],
        undisturbed["best"]["config"],
    ):
        found.append(f"trial {answer['best']['trial']} won, not {undisturbed['best']['trial']}")
    if len(of(StageEnded, events)) != len(undisturbed["stages"]):
        found.append(f"{len(of(StageEnded, events))} stages were completed, not {len(undisturbed['stages'])}")
    ended = {event.node for event in (*of(NodeReleased, events), *of(NodeLost, events))}
    if {event.node for event in of(NodeRequested, events)} != ended:
        found.append("a node was not given back")
    saved: dict[int, int] = {}
    for event in events:
        if isinstance(event, TrialSaved):
            saved[event.trial] = event.iterations
        elif isinstance(event, TrialStarted) and event.from_iteration != saved.get(event.trial, 0):
            found.append(f"trial {event.trial} went on from {event.from_iteration}, not {saved.get(event.trial, 0)}")
    return found


def row(events: list[Event], answer: dict, undisturbed: dict) -> dict:
    """What is told of one moment."""
    (resumed,) = [number for number, event in enumerate(events) if isinstance(event, RunResumed)]
    before, after = events[:resumed], events[resumed:]
    done = {(report.trial, report.iterations) for report in of(TrialReported, before)}
    again = sum((report.trial, report.iterations) in done for report in of(TrialReported, after))
    return {
        "killed_s": round(before[-1].t_s, 2),
        "stage": len(of(StageEnded, before)),
        "scores_before": len(done),
        "iterations_repeated": again,
        "winner": answer["best"]["trial"],
        "score": answer["best"]["score"],
        "stages": len(of(StageEnded, events)),
        "problems": problems(events, answer, undisturbed),
    }


def main() -> None:
    """Kill, resume, compare."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--moments", type=int, default=10)
    options.add_argument("--small", action="store_true")
    options.add_argument("--profile", type=Path, default=None)
    asked = options.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        digits = Digits(Path(name), small=asked.small, profile=asked.profile)
        undisturbed = digits.run()
        events = list(read_log(Path(undisturbed["run_dir"]) / "events.jsonl").events)
        rows = []
        for number, (t_s, reports) in enumerate(moments(events, asked.moments)):
            print(f"moment {number + 1} of {asked.moments}: {t_s:.1f} s, {reports} scores", file=sys.stderr)
            directory = digits.killed(f"killed-{number}", reports)
            answer = digits.resumed(f"killed-{number}", directory)
            rows.append(row(list(read_log(directory / "events.jsonl").events), answer, undisturbed))
    best = undisturbed["best"]
    told = {
        "winner": best["trial"],
        "score": best["score"],
        "stages": len(undisturbed["stages"]),
        "jct_s": round(undisturbed["actual"]["jct_s"], 2),
        "moments": rows,
        "took_s": round(time.perf_counter() - began, 1),
    }
    print(json.dumps(told, indent=2))
    sys.exit(any(row["problems"] for row in rows))


if __name__ == "__main__":
    main()
