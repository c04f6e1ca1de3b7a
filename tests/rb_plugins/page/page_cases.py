"""Logs and stories of any size, by rehearsal."""

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np

from rb_core.events import TrialCreated, TrialFailed
from rb_core.planners.static import Static
from rb_core.sim.faults import Faults
from rb_core.sim.rehearsal import rehearsed_log
from rb_core.simulate import simulate
from rb_plugins.config.problem import read_problem
from rb_plugins.logged import no_books
from rb_plugins.page.sources import story_of_rehearsal

EVIL = "<script>document.title='broken'</script>\"'&\u202e\x00"


@cache
def problem(trials: int):
    table = {
        "experiment": {"successive_halving": {"n": trials, "r": 4, "R": 64, "eta": 4}},
        "profile": {"iteration_s": {"1": {"mean": 60, "std": 3}, "2": 35}, "start_s": 20, "save_s": 5, "sync_s": 2},
        "cloud": {"instance_types": [{"name": "box", "slots": 4, "usd_per_hour": 12.0}], "launch_s": 30, "init_s": 60},
        "objective": {"deadline_s": 40 * 3600},
    }
    return read_problem(table, folder=Path(), price_books=no_books)


@cache
def plan(trials: int):
    return Static().plan(problem(trials), np.random.default_rng(0))


@cache
def log(trials: int, *, faulty: bool = False):
    faults = Faults(node_loss_per_hour=0.3, trial_failure=0.05) if faulty else Faults()
    return rehearsed_log(problem(trials), plan(trials), seed=3, faults=faults)


@cache
def story(trials: int, *, faulty: bool = False, evil: bool = False):
    history = log(trials, faulty=faulty)
    if evil:
        history = tuple(map(_evil, history))
    told, chosen = problem(trials), plan(trials)
    estimate = simulate(told, chosen, samples=200, rng=np.random.default_rng(0))
    name = EVIL if evil else "case"
    return story_of_rehearsal(told, chosen, estimate, history, name=name, repeat=(("command", name),))


def _evil(event):
    if isinstance(event, TrialCreated):
        return dataclasses.replace(event, config={EVIL: EVIL})
    return dataclasses.replace(event, cause=EVIL) if isinstance(event, TrialFailed) else event
