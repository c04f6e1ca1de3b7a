"""An objective with a session: the same under anything that runs it, and resumed where the executor has to move it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from optuna.trial import FixedTrial, TrialState
from rb_optuna import RubberBandExecutor, session
from rb_optuna.terms import free_cloud

from rb_core.errors import TrialMisuse

STEPS = 9


class Total:
    """Anything with a state."""

    def __init__(self):
        self.value = 0.0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def noted(folder, trial, step):
    with (Path(folder) / f"trial-{trial.number}").open("a") as file:
        file.write(f"{step}\n")


def done(folder, number):
    """The steps that a trial has done, those of all its starts."""
    return [int(line) for line in (Path(folder) / f"trial-{number}").read_text().split()]


def with_objects(folder):
    """An objective whose reports depend on its state and on every number that was drawn."""

    def objective(trial):
        random.seed(trial.number)
        np.random.seed(trial.number)
        total = Total()
        run = session(trial, total=total)
        for step in run.steps(STEPS):
            noted(folder, trial, step)
            total.value += random.random() + np.random.random()
            trial.report(total.value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return total.value

    return objective


def with_states(folder):
    """The same with states of its own making."""

    def objective(trial):
        run = session(trial)
        generator = random.Random(trial.number)
        state = run.load() or {"step": 0, "total": 0.0, "generator": generator.getstate()}
        generator.setstate(state["generator"])
        for step in range(state["step"], STEPS):
            noted(folder, trial, step)
            state = {"step": step + 1, "total": state["total"] + generator.random(), "generator": generator.getstate()}
            run.save(state)
            trial.report(state["total"], step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return state["total"]

    return objective


def reports_of(objective, trials, folder):
    """What undisturbed trials report, each to its end."""
    study = optuna.create_study(pruner=optuna.pruners.NopPruner())
    study.optimize(objective(folder), n_trials=trials)
    return [trial.intermediate_values for trial in study.trials]


BOTH = pytest.mark.parametrize("objective", [pytest.param(with_objects, marks=pytest.mark.long), with_states])


@pytest.fixture
def plain(tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    return folder


# Where nothing is suspended


@BOTH
def test_it_is_inert_under_plain_optimize(objective, plain):
    reports = reports_of(objective, 2, plain)
    assert [len(values) for values in reports] == [STEPS, STEPS]
    assert [done(plain, number) for number in (0, 1)] == [list(range(STEPS))] * 2
    assert sorted(path.name for path in plain.iterdir()) == ["trial-0", "trial-1"]


@BOTH
def test_it_is_inert_with_fixed_parameters(objective, plain):
    assert objective(plain)(FixedTrial({}, number=1)) == reports_of(objective, 2, plain)[1][STEPS - 1]


def test_it_is_inert_alone(tmp_path):
    alone = SimpleNamespace()
    run = session(alone, total=object())
    assert (run.rank, run.world_size, run.device, run.start_step) == (0, 1, "cpu", 0)
    assert list(run.steps(4)) == [0, 1, 2, 3]
    assert run.load() is None
    run.save({"step": 1})
    model = SimpleNamespace(to=lambda device: model)
    assert run.wrap(model) is model
    assert list(tmp_path.iterdir()) == []


def test_a_session_is_that_of_its_trial():
    trial = FixedTrial({})
    assert session(trial) is session(trial)
    assert session(FixedTrial({})) is not session(trial)


# Where the slots do not suffice


def optimized(objective, folder, *, trials=4, slots=1, **options):
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    executor = RubberBandExecutor(
        study,
        max_resource=STEPS,
        launcher="process",
        cloud=free_cloud("slot", slots),
        unresumable="error",
        **options,
    )
    executor.optimize(objective(folder), n_trials=trials)
    return study


@BOTH
def test_resumed_on_as_many_slots_it_reports_what_an_undisturbed_one_does_and_repeats_no_step(
    objective, tmp_path, plain
):
    study = optimized(objective, tmp_path)
    expected = reports_of(objective, 4, plain)
    for trial in study.trials:
        values = trial.intermediate_values
        # Exactly: the generators go on with the number after the last one.
        assert values == {step: expected[trial.number][step] for step in values}
        assert done(tmp_path, trial.number) == list(range(len(values)))
    # The best waited for the others without a slot.
    assert len(study.best_trial.user_attrs["rubberband:allocation"]) >= 2
    assert Counter(trial.state for trial in study.trials) == {TrialState.PRUNED: 3, TrialState.COMPLETE: 1}
    assert study.best_trial.number == max(range(4), key=lambda number: expected[number][0])
    assert study.best_value == expected[study.best_trial.number][STEPS - 1]


def test_inline_nothing_is_moved_and_nothing_is_written(tmp_path, plain):
    study = optuna.create_study(direction="maximize")
    RubberBandExecutor(study, max_resource=STEPS, launcher="inline").optimize(with_states(tmp_path), n_trials=4)
    expected = reports_of(with_states, 4, plain)
    assert [len(trial.intermediate_values) for trial in study.trials].count(STEPS) == 1
    for trial in study.trials:
        assert trial.intermediate_values == {step: expected[trial.number][step] for step in trial.intermediate_values}
    assert {path.name for path in tmp_path.iterdir()} == {"plain", *(f"trial-{number}" for number in range(4))}


# Misuse


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        (lambda trial: session(trial, model=object()), "state_dict"),
        (lambda trial: (session(trial, model=Total()), session(trial, model=Total())), "twice"),
        (lambda trial: session(trial, model=Total()).save({}), "but not both"),
    ],
)
def test_misuse_is_an_error_of_the_objective(misuse, words):
    study = optuna.create_study()
    with pytest.raises(TrialMisuse, match=words):
        RubberBandExecutor(study, max_resource=3, launcher="inline").optimize(misuse, n_trials=1)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL]
