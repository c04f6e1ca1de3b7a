"""Who survives which rung: the scheduler against the core's bracket and the Optuna executor, on random tables."""

from __future__ import annotations

import math
import pickle
import random
from itertools import accumulate

import optuna
import pytest
from light_tune import LightController, Table, drawn
from rb_optuna import RubberBandExecutor
from rb_ray import RubberBandScheduler

from rb_core.bracket import Bracket
from rb_core.spec import ExperimentSpec

TABLES = 200
PART = 100
RESTORES = 60


def by_bracket(table: Table) -> list[tuple[str, int]]:
    """How each trial ends and how far it comes, by `rb_core.bracket.Bracket` alone."""
    chain = ExperimentSpec.successive_halving(
        n=len(table.scores), r=table.min_t, R=table.max_t, eta=table.reduction_factor
    ).chains[0]
    bracket, ends = Bracket(chain, table.mode), {}
    done = dict.fromkeys(range(len(table.scores)), 0)
    for stage, rung in enumerate(accumulate(stage.iterations for stage in chain)):
        live = [trial for trial in done if trial not in ends]
        for trial in live:
            at, how = table.ends.get(trial, (math.inf, ""))
            for iterations in range(done[trial] + 1, rung + 1):
                if iterations >= at:
                    bracket.fail(trial)
                    ends[trial] = "failed" if how == "fails" else "returned"
                    break
                done[trial] = iterations
                bracket.report(trial, iterations, table.scores[trial][iterations - 1])
        if bracket.over:
            break
        here = [table.scores[trial][rung - 1] for trial in live if trial not in ends]
        hopeless = stage + 1 < len(chain) and all(math.isnan(score) for score in here)
        decision = bracket.decide(() if hopeless else None)
        ends.update(dict.fromkeys(decision.stopped, "stopped"))
    return [(ends.get(trial, "finished"), done[trial]) for trial in done]


def by_executor(table: Table) -> list[tuple[str, int]]:
    """The same by the Optuna executor: states and numbers of reports."""

    def objective(trial: optuna.Trial) -> float:
        at, how = table.ends.get(trial.number, (math.inf, ""))
        for done in range(1, table.max_t + 1):
            if done >= at:
                if how == "fails":
                    raise RuntimeError("of its own")
                return 1.0
            trial.report(table.scores[trial.number][done - 1], done)
            if trial.should_prune():
                raise optuna.TrialPruned
        return 1.0

    direction = {"max": "maximize", "min": "minimize"}[table.mode]
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
    RubberBandExecutor(
        study,
        launcher="inline",
        max_resource=table.max_t,
        min_resource=table.min_t,
        reduction_factor=table.reduction_factor,
    ).optimize(objective, n_trials=len(table.scores), catch=RuntimeError)
    return [(trial.state.name, len(trial.intermediate_values)) for trial in study.get_trials(deepcopy=False)]


IN_OPTUNA_S_WORDS = {"finished": "COMPLETE", "returned": "COMPLETE", "stopped": "PRUNED", "failed": "FAIL"}


@pytest.fixture(autouse=True)
def quiet():
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    yield
    optuna.logging.set_verbosity(level)


@pytest.mark.parametrize("part", range(TABLES // PART))
def test_survivors_are_those_of_the_bracket_and_of_the_executor(part):
    for seed in range(part * PART, (part + 1) * PART):
        table, rng = drawn(seed), random.Random(seed)
        controller = LightController(RubberBandScheduler(**table.scheduler_args()), table, rng, rng.randint(1, 6))
        controller.begin()
        outcome = controller.run()
        assert outcome == by_bracket(table), f"seed {seed}"
        assert [(IN_OPTUNA_S_WORDS[how], done) for how, done in outcome] == by_executor(table), f"seed {seed}"
        assert all(run.reports == sorted(set(run.reports)) for run in controller.runs), f"seed {seed}"


def test_survivors_are_the_same_when_trials_fail_and_are_tried_again():
    tripped = 0
    for seed in range(1000, 1000 + RESTORES):
        table, rng = drawn(seed, trips=True), random.Random(seed)
        controller = LightController(RubberBandScheduler(**table.scheduler_args()), table, rng, rng.randint(1, 6))
        controller.begin()
        assert controller.run() == by_bracket(table), f"seed {seed}"
        tripped += sum(run.tripped for run in controller.runs)
    assert tripped > RESTORES / 2


def test_survivors_are_the_same_when_the_driver_is_killed_twice_at_any_time(tmp_path):
    for seed in range(2000, 2000 + RESTORES):
        table, rng = drawn(seed), random.Random(seed)
        scheduler = RubberBandScheduler(**table.scheduler_args())
        as_made = pickle.dumps(scheduler)
        controller = LightController(scheduler, table, rng, rng.randint(1, 6), folder=tmp_path / str(seed))
        controller.begin()
        for _ in range(2):
            for _ in range(rng.randrange(40)):
                if not controller.over:
                    controller.step()
            controller = controller.restored(pickle.loads(as_made))
        after = [(end.replace("TERMINATED", "stopped"), done) for end, done in controller.run()]
        expected = by_bracket(table)
        assert [done for _, done in after] == [done for _, done in expected], f"seed {seed}"
        assert {n for n, (end, _) in enumerate(after) if end == "failed"} == {
            n for n, (end, _) in enumerate(expected) if end == "failed"
        }, f"seed {seed}"


def test_the_tables_hold_what_they_are_to_hold():
    tables = [drawn(seed) for seed in range(TABLES)]
    scores = [score for table in tables for row in table.scores for score in row]
    assert any(math.isnan(score) for score in scores)
    assert {table.mode for table in tables} == {"min", "max"}
    assert {(table.reduction_factor, table.min_t) for table in tables} == {(f, r) for f in (2, 3, 4) for r in (1, 2, 3)}
    ends = {end for table in tables for end, _ in by_bracket(table)}
    assert ends == {"finished", "stopped", "failed", "returned"}
