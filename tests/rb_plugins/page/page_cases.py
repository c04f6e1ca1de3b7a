"""Logs, stories and pages of any size, by rehearsal; a case is a number of trials, or how Hyperband's brackets run."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import numpy as np

from rb_core.events import TrialCreated, TrialFailed
from rb_core.plan import ChainOrder
from rb_core.planners.static import Static
from rb_core.sim.faults import Faults
from rb_core.sim.rehearsal import rehearsed_log
from rb_core.simulate import simulate
from rb_plugins.config.problem import read_problem
from rb_plugins.config.profile import read_profile_table
from rb_plugins.logged import no_books
from rb_plugins.page.profiled import profile_page
from rb_plugins.page.repeating import Repeating
from rb_plugins.page.sources import story_of_rehearsal

EVIL = "<script>document.title='broken'</script>\"'&\u202e\x00"

PROFILE = {
    "iteration_s": {
        "1": {"mean": 8.1, "std": 0.2},
        "2": {"mean": 4.6, "std": 0.1},
        "4": {"mean": 2.9, "std": 0.1},
        "8": {"mean": 2.1, "std": 0.1},
    },
    "target": "train.py:train",
    "made": "2026-12-03T00:00:00+00:00",
    "seconds": 93.0,
    "warnings": ["only one configuration was measured"],
    "measurements": [
        {"slots": slots, "config": {"lr": 0.1}, "from_iteration": 0, "start_s": 3.0, "restore_s": 0.0,
         "iterations_s": [mean_s + 2, mean_s - 0.1, mean_s + 0.1], "save_s": 0.2, "checkpoint_bytes": 10}
        for slots, mean_s in ((1, 8.1), (2, 4.6), (4, 2.9))
    ],
    "fit": {"form": "a + b/w + c*log2(w) + d*w", "coefficients": [1.1, 7.0, 0.0, 0.0],
            "residuals": {"1": 0.0, "2": 0.001, "4": -0.017}, "largest_slots": 8},
}  # fmt: skip


@cache
def problem(case: int | str):
    numbers = {"n": case, "r": 4, "R": 64, "eta": 4}
    table = {
        "experiment": {"successive_halving": numbers} if isinstance(case, int) else {"hyperband": {"R": 27, "eta": 3}},
        "profile": {"iteration_s": {"1": {"mean": 60, "std": 3}, "2": 35}, "start_s": 20, "save_s": 5, "sync_s": 2},
        "cloud": {"instance_types": [{"name": "box", "slots": 4, "usd_per_hour": 12.0}], "launch_s": 30, "init_s": 60},
        "objective": {"deadline_s": 40 * 3600},
    }
    return read_problem(table, folder=Path(), price_books=no_books)


@cache
def plan(case: int | str):
    order = ChainOrder.SEQUENTIAL if isinstance(case, int) else ChainOrder(case)
    return dataclasses.replace(Static().plan(problem(case), np.random.default_rng(0)), order=order)


@cache
def log(case: int | str, *, faulty: bool = False):
    faults = Faults(node_loss_per_hour=0.3, trial_failure=0.05) if faulty else Faults()
    return rehearsed_log(problem(case), plan(case), seed=3, faults=faults)


@cache
def estimate(case: int | str):
    return simulate(problem(case), plan(case), samples=200, rng=np.random.default_rng(0))


@cache
def story(case: int | str, *, faulty: bool = False, evil: bool = False):
    history = log(case, faulty=faulty)
    if evil:
        history = tuple(map(_evil, history))
    name = EVIL if evil else "case"
    repeating = Repeating(facts=(("command", name),), texts=(("problem.json", f"{{}}{name}"),))
    return story_of_rehearsal(problem(case), plan(case), estimate(case), history, name=name, repeating=repeating)


def profile_text() -> str:
    """The page of `PROFILE`."""
    told = read_profile_table(json.loads(json.dumps(PROFILE)), folder=Path())
    return profile_page(told, name="train.py:train", repeating=Repeating(facts=(("command", "rb-tune profile"),)))


def _evil(event):
    if isinstance(event, TrialCreated):
        return dataclasses.replace(event, config={EVIL: EVIL})
    return dataclasses.replace(event, cause=EVIL) if isinstance(event, TrialFailed) else event
