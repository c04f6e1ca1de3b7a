"""A run whose checkpoints lie in a depot: what the engine asks of it, also when it fails."""

from __future__ import annotations

import pytest
from engine_world import World, nth, plan, problem, worked_training

from rb_core.errors import FailureKind, StoreFailure
from rb_core.events import CheckpointLost, RunEnded, RunEnding, TrialFailed, TrialInterrupted, TrialSaved
from rb_core.testing import FakeDepot

PLAN = plan([(2, 1), (2, 2), (2, 4)])


def kept(state) -> set[str]:
    return {checkpoint.path for trial in state.trials.values() for checkpoint in trial.checkpoints}


def test_starts_go_on_from_what_the_depot_holds_and_the_rest_is_removed():
    world, depot = World(), FakeDepot()
    state = world.run(problem(), PLAN, depot=depot)
    assert state.ending is RunEnding.DONE
    saved = {(event.trial, event.iterations): event.checkpoint for event in world.of(TrialSaved)}
    for run in world.launcher.starts:
        assert run.checkpoint is None
        assert run.deposited == run.restores == saved.get((run.trial, run.from_iteration), "")
    assert set(depot.held) == kept(state)
    assert set(depot.deleted) == set(saved.values()) - kept(state)
    assert world.removed == []


def test_what_nobody_knows_of_is_swept_up_at_the_end():
    world, depot = World(), FakeDepot()
    depot.held["fake://depot/trial-0/cut-short"] = None
    state = world.run(problem(), PLAN, depot=depot)
    assert "fake://depot/trial-0/cut-short" in depot.deleted
    assert set(depot.held) == kept(state)


def test_a_resumed_run_goes_on_from_the_depot_and_sweeps_what_its_predecessor_left():
    training = worked_training(every_iteration=True, save_every=3)
    whole = World(training=training)
    whole.run(problem(), PLAN, depot=FakeDepot())
    for number in range(0, len(whole.told), 7):
        world, depot = World(training=training), FakeDepot()
        world.killed(problem(), PLAN, nth(number), depot=depot)
        depot.held["fake://depot/trial-0/cut-short"] = None
        before = {trial: kept for trial, kept in _last(world).items() if kept}
        state = world.resume(problem(), PLAN, depot=depot) if world.history else world.run(problem(), PLAN, depot=depot)
        firsts = {run.trial: run for run in reversed(world.launcher.starts)}
        assert all(firsts[trial].deposited == last for trial, last in before.items() if trial in firsts)
        assert state.ending is RunEnding.DONE
        assert set(depot.held) == kept(state)


def _last(world) -> dict[int, str]:
    saved: dict[int, str] = {}
    for event in world.history:
        if isinstance(event, TrialSaved):
            saved[event.trial] = event.checkpoint
    return saved


class Stubborn(FakeDepot):
    """Deletes nothing."""

    def delete(self, reference):
        self.deleted.append(reference)
        raise StoreFailure(f"checkpoint {reference} cannot be deleted: access is refused")


def test_what_cannot_be_deleted_is_a_warning_and_ends_nothing():
    world, depot = World(), Stubborn()
    state = world.run(problem(), PLAN, depot=depot)
    assert state.ending is RunEnding.DONE
    refused = [text for text in state.warnings if "cannot be deleted: access is refused; remove it by hand" in text]
    stay = [text for text in state.warnings if "stay in fake://depot" in text]
    assert refused
    assert set(depot.held) > kept(state)
    assert len(depot.deleted) == len(refused) or stay


class Unlisted(FakeDepot):
    """Cannot say what it holds."""

    def references(self):
        raise StoreFailure("fake://depot cannot be listed: access is refused")


def test_a_depot_that_cannot_be_listed_is_a_warning():
    state = World().run(problem(), PLAN, depot=Unlisted())
    assert state.ending is RunEnding.DONE
    assert any("what is left over in fake://depot could not be looked for" in text for text in state.warnings)


def test_a_start_that_the_store_failed_is_tried_again():
    failing = iter(["the store is closed"])
    world = World(training=worked_training(failure=lambda run: next(failing, ""), failure_kind=FailureKind.STORE))
    state = world.run(problem(), PLAN, depot=FakeDepot())
    assert state.ending is RunEnding.DONE
    assert [event.cause for event in world.of(TrialInterrupted)] == ["the store is closed"]
    assert "trial 0 is started again: the store is closed" in state.warnings


def test_a_store_that_stays_away_ends_the_run_and_costs_no_trial():
    away = {"": False}
    training = worked_training(
        failure=lambda run: "the store is closed" if run.stage and not away[""] else "",
        failure_kind=FailureKind.STORE,
    )
    world, depot = World(training=training), FakeDepot()
    with pytest.raises(StoreFailure, match=r"^trial 3 cannot go on without its checkpoints: the store is closed"):
        world.run(problem(), PLAN, depot=depot)
    assert world.released()
    assert world.of(TrialFailed) == world.of(CheckpointLost) == []
    assert world.of(RunEnded)[-1].ending is RunEnding.FAILED
    away[""] = True
    state = world.resume(problem(), PLAN, depot=depot)
    assert state.ending is RunEnding.DONE
    assert set(depot.held) == kept(state)


def test_a_checkpoint_that_is_damaged_is_dropped_by_its_reference():
    lost = iter(["is damaged"])
    training = worked_training(
        every_iteration=True,
        save_every=3,
        failure=lambda run: next(lost, "") if run.stage else "",
        failure_kind=FailureKind.CHECKPOINT,
    )
    world, depot = World(training=training), FakeDepot()
    state = world.run(problem(), PLAN, depot=depot)
    (event,) = world.of(CheckpointLost)
    assert event.checkpoint.startswith("fake://depot/")
    assert state.ending is RunEnding.DONE
    assert set(depot.held) == kept(state)
