"""Broken copies of the engine are caught: each mutant is rehearsed until the invariant that is meant for it sees it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from rb_core import ledger
from rb_core.billing import bill
from rb_core.bracket import Bracket
from rb_core.budget import Budget
from rb_core.cluster import Cluster, HeldNode
from rb_core.engine import chainrun, running
from rb_core.engine.chainrun import ChainRun
from rb_core.engine.places import Places
from rb_core.events import NodeReleased, NodeRequested, TrialPaused
from rb_core.journal import Journal
from rb_core.sim.faults import Faults, Slowness
from rb_core.sim.invariants import INVARIANTS, BrokenInvariant
from rb_core.sim.trouble import Trouble, trouble
from rb_core.state import TrialPhase, TrialState

Patch = pytest.MonkeyPatch
RUNS = 150
"""A mutant that shows in none of so many runs is not caught."""


def no_release_on_error(patch: Patch) -> None:
    patch.setattr(Cluster, "leave", lambda self: None)
    patch.setattr(Cluster, "__exit__", lambda self, *exc: None)


def release_forgotten(patch: Patch) -> None:
    patch.setattr(Cluster, "_give_back", lambda self, names, attempt: None)


def release_written_twice(patch: Patch) -> None:
    release = Cluster.release

    def twice(self: Cluster, names: Sequence[str], reason: str) -> None:
        if names:
            self._journal.write_all(NodeReleased, [{"node": name, "reason": reason} for name in names])
        release(self, names, reason)

    patch.setattr(Cluster, "release", twice)


def intent_lost(patch: Patch) -> None:
    write_all = Journal.write_all

    def forgetful(self: Journal, kind: type, rows: Sequence[dict[str, object]]) -> None:
        if kind is not NodeRequested:
            write_all(self, kind, rows)
            return
        log, self._log = self._log, _Void()
        write_all(self, kind, rows)
        self._log = log

    patch.setattr(Journal, "write_all", forgetful)


class _Void:
    def append(self, *events: object) -> None:
        pass


def node_limit_ignored(patch: Patch) -> None:
    patch.setattr(Budget, "admit", lambda self, count, instance_type: None)
    patch.setattr(Cluster, "_missing", lambda self: 2 * self._wanted - self.staying)


def money_limit_ignored(patch: Patch) -> None:
    patch.setattr(Budget, "_check", lambda self, needed_usd, step: None)


def bill_without_minimum(patch: Patch) -> None:
    def generous(billing, **lifetimes):
        return bill(dataclasses.replace(billing, minimum_s=0.0), **lifetimes)

    patch.setattr(ledger, "bill", generous)


def loss_noticed_late(patch: Patch) -> None:
    patch.setattr(Cluster, "_ago", lambda self, notice: self._journal.t_s)


def promotion_off_by_one(patch: Patch) -> None:
    patch.setattr(Bracket, "_chosen", lambda self, scores, ranked, count: tuple(ranked[1 : count + 1] or ranked[:1]))


def one_too_few(patch: Patch) -> None:
    patch.setattr(Bracket, "_chosen", lambda self, scores, ranked, count: tuple(ranked[: max(1, count - 1)]))


def nan_ranks_first(patch: Patch) -> None:
    def rank(self: Bracket, score: float) -> tuple[bool, float]:
        return (False, -math.inf) if math.isnan(score) else (False, self._sign * score)

    patch.setattr(Bracket, "_rank", rank)


def failed_trial_kept(patch: Patch) -> None:
    def pity(self: Bracket, trial: int) -> None:
        self.report(trial, self._ends[-1], math.nan)

    patch.setattr(Bracket, "fail", pity)


def stale_survivors(patch: Patch) -> None:
    barrier = ChainRun.barrier

    def stale(self: ChainRun) -> None:
        before = self._stage_trials()
        barrier(self)
        if self.due:
            self.due = before[: len(self.due)]

    patch.setattr(ChainRun, "barrier", stale)


def loser_kept(patch: Patch) -> None:
    patch.setattr(chainrun, "remove", lambda setting, trial, path: None)


def winner_removed(patch: Patch) -> None:
    patch.setattr(running, "superseded", lambda trial, mode: tuple(trial.checkpoints))


def removal_not_written(patch: Patch) -> None:
    def careless(setting, trial, path):
        setting.remove(path)

    patch.setattr(running, "remove", careless)
    patch.setattr(
        TrialState, "last_checkpoint", property(lambda self: self.checkpoints[0] if self.checkpoints else None)
    )


def old_checkpoint(patch: Patch) -> None:
    patch.setattr(running, "superseded", lambda trial, mode: ())
    patch.setattr(
        TrialState, "last_checkpoint", property(lambda self: self.checkpoints[0] if self.checkpoints else None)
    )


def infrastructure_counts(patch: Patch) -> None:
    def blame(self: ChainRun, node: HeldNode) -> None:
        for trial in [t for t, doubt in self._doubts.items() if node.name in doubt.running.place.nodes]:
            self._doubts[trial].timer.cancel()
            self._blame(trial)

    patch.setattr(ChainRun, "_excuse", blame)


def resume_repeats_a_stage(patch: Patch) -> None:
    resume = ChainRun.resume

    def repeat(self: ChainRun) -> None:
        resume(self)
        trials = self._setting.journal.state.trials
        paused = [number for number in self._own() if trials[number].phase is TrialPhase.PAUSED]
        if not self.due and not self.done:
            self._queue.extend(paused)
            self._advance()

    def own(self: ChainRun) -> tuple[int, ...]:
        stages = [stage for stage in self._setting.journal.state.stages if stage.chain == self.number]
        return stages[-1].trials if stages else ()

    patch.setattr(ChainRun, "_own", own, raising=False)
    patch.setattr(ChainRun, "resume", repeat)


def place_taken_twice(patch: Patch) -> None:
    def take(self: Places):
        return self._free[0] if self._free else None

    patch.setattr(Places, "take", take)


def wall_clock_read(patch: Patch) -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC)
    patch.setattr(Journal, "t_s", property(lambda self: (self._clock.utc() - start).total_seconds() - self._origin_s))


def no_watchdog(patch: Patch) -> None:
    patch.setattr(running.RunningTrial, "_watch", lambda self: None)


def stage_skipped(patch: Patch) -> None:
    pause = ChainRun._pause

    def early(self: ChainRun, trial: int, iteration_s: float | None) -> None:
        pause(self, trial, iteration_s)
        if self.stage == 0:
            self._setting.journal.write(
                TrialPaused, trial=trial, stage=0, iterations=self._ends[0], iteration_s=iteration_s
            )

    patch.setattr(ChainRun, "_pause", early)


MUTANTS: dict[Callable[[Patch], None], set[str]] = {
    no_release_on_error: {"nothing_held"},
    release_forgotten: {"nothing_held", "nodes_accounted_for"},
    release_written_twice: {"nodes_accounted_for"},
    intent_lost: {"nodes_accounted_for"},
    node_limit_ignored: {"nodes_limited"},
    money_limit_ignored: {"budget_kept"},
    bill_without_minimum: {"money_adds_up"},
    loss_noticed_late: {"nodes_accounted_for"},
    promotion_off_by_one: {"survivors_are_the_best"},
    one_too_few: {"survivors_are_the_best"},
    nan_ranks_first: {"survivors_are_the_best"},
    failed_trial_kept: {"survivors_are_the_best"},
    stale_survivors: {"survivors_are_the_best"},
    loser_kept: {"checkpoints_kept"},
    winner_removed: {"trials_move_forward", "checkpoints_kept"},
    removal_not_written: {"trials_move_forward", "checkpoints_kept"},
    old_checkpoint: {"trials_move_forward"},
    infrastructure_counts: {"failures_are_their_own"},
    resume_repeats_a_stage: {"trials_move_forward", "one_place_each", "survivors_are_the_best", "ended"},
    place_taken_twice: {"one_place_each"},
    wall_clock_read: {"time_passes"},
    no_watchdog: {"ended"},
    stage_skipped: {"trials_move_forward"},
}
"""Each broken copy, and the invariants of which one must see it."""

EVERYTHING = Faults(
    launch_failure=0.1, never_ready=0.05, slow_init=Slowness(probability=0.1, factor=10.0), node_loss_per_hour=6.0,
    mass_loss_probability=0.3, trial_failure=0.05, trial_hang=0.05, nan_score=0.2, clock_step_s=3600.0,
    driver_kill_per_run=0.7,
)  # fmt: skip


def cases() -> list[Trouble]:
    """Random problems, half of them with their own faults and half with all of the common ones."""
    own = [trouble(number) for number in range(RUNS)]
    return [dataclasses.replace(case, faults=EVERYTHING) if case.number % 2 else case for case in own]


def seen(case: Trouble) -> set[str]:
    """The invariants that a run breaks."""
    try:
        case.rehearse()
    except BrokenInvariant as error:
        return {problem.partition(":")[0] for problem in error.problems}
    return set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_engine_is_caught(mutant, monkeypatch):
    mutant(monkeypatch)
    assert any(seen(case) & MUTANTS[mutant] for case in cases())


def test_the_engine_as_it_stands_is_sound_in_the_same_runs():
    assert [case.number for case in cases() if seen(case)] == []


def test_every_invariant_catches_a_mutant():
    assert set().union(*MUTANTS.values()) == set(INVARIANTS)


def test_there_are_enough_mutants():
    assert len(MUTANTS) >= 10
