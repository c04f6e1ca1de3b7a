"""The driver is killed at every single step of a barrier, before or after it, and the run goes on as if it had not."""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path

import pytest
from light_tune import LightController, Table
from rb_ray import RubberBandScheduler
from rb_ray.scheduling.fleet import FixedFleet
from rb_ray.scheduling.hosting import TuneTrials
from rb_ray.scheduling.memory import BEFORE, FILE, Memory
from rb_ray.scheduling.rungs import Rungs

TABLE = Table(
    mode="max",
    reduction_factor=2,
    min_t=1,
    max_t=4,
    scores=tuple((float(n),) * 4 for n in (3, 1, 4, 2, 0)),
    ends={4: (1, "fails")},
)
OUTCOME = [("stopped", 2), ("stopped", 1), ("finished", 4), ("stopped", 1), ("failed", 0)]
STEPS = {
    "decide": (Rungs, "decide"),
    "write": (Memory, "write"),
    "stop": (TuneTrials, "stop"),
    "save": (TuneTrials, "save"),
    "resize": (FixedFleet, "resize"),
    "give": (TuneTrials, "give"),
}


class Killed(BaseException):
    """In place of SIGKILL; what is written after it is undone."""


def killed_at(step: str, number: int, *, before: bool, monkeypatch: pytest.MonkeyPatch, folder: Path) -> bool:
    """Run until a step is done for the so manieth time; whether it came to that. Then go on in a new driver."""
    owner, name = STEPS[step]
    inner, seen = getattr(owner, name), []
    kept = folder.with_name(f"{folder.name} as it was")

    def outer(self, *args):
        seen.append(name)
        if before and len(seen) == number:
            die()
        answer = inner(self, *args)
        if len(seen) == number:
            die()
        return answer

    def die():
        shutil.copytree(folder, kept) if folder.exists() else kept.mkdir()
        raise Killed

    scheduler = RubberBandScheduler(**TABLE.scheduler_args())
    as_made = pickle.dumps(scheduler)
    controller = LightController(scheduler, TABLE, random.Random(number), 2, folder=folder)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, outer)
        try:
            controller.begin()
            controller.run()
        except Killed:
            shutil.rmtree(folder, ignore_errors=True)
            kept.rename(folder)
        else:
            return False
    after = controller.restored(pickle.loads(as_made))
    after.run()
    ends = [(how.replace("TERMINATED", "stopped"), done) for how, done in after.outcome()]
    assert [done for _, done in ends] == [done for _, done in OUTCOME]
    for run in after.runs:
        assert len(run.reports) == len(set(run.reports)), f"trial {run.number} did a step twice: {run.reports}"
    return True


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_costs_nothing_that_was_done(tmp_path, monkeypatch, step):
    for before in (True, False):
        number = 1
        while killed_at(
            step,
            number,
            before=before,
            monkeypatch=monkeypatch,
            folder=tmp_path / f"{number} {'before' if before else 'after'}",
        ):
            number += 1
        assert number > 2, f"{step} is never done twice"


def test_without_a_kill_it_ends_like_this():
    controller = LightController(RubberBandScheduler(**TABLE.scheduler_args()), TABLE, random.Random(0), 2)
    controller.begin()
    assert controller.run() == OUTCOME


def test_a_copy_that_was_cut_short_gives_way_to_the_one_before(tmp_path):
    scheduler = RubberBandScheduler(**TABLE.scheduler_args())
    as_made = pickle.dumps(scheduler)
    controller = LightController(scheduler, TABLE, random.Random(1), 2, folder=tmp_path)
    controller.begin()
    while '"decided"' not in ((tmp_path / BEFORE).read_text() if (tmp_path / BEFORE).exists() else ""):
        controller.step()
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text()[:-40])
    after = controller.restored(pickle.loads(as_made))
    assert [done for _, done in after.run()] == [done for _, done in OUTCOME]
