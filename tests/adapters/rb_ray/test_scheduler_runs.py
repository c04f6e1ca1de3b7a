"""`RubberBandScheduler` in real runs of Tune on a cluster of four slots that stays as it is."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from ladder import function, steps, trainable_class
from ray import tune
from ray.tune.execution.tune_controller import TuneController
from rb_ray import RubberBandScheduler, _compat

from rb_core.errors import LaunchFailure

pytestmark = pytest.mark.usefixtures("four_slots")


def climbs(
    trainable: Any, tmp_path: Path, scheduler: RubberBandScheduler, space: dict[str, Any], **config: Any
) -> tune.Tuner:
    """A Tuner that keeps everything in the test's folder."""
    failures = config.pop("max_failures", 0)
    checkpoints = config.pop("checkpoint_config", None)
    return tune.Tuner(
        trainable,
        param_space={"log": str(tmp_path / "log"), **space},
        tune_config=tune.TuneConfig(**{"metric": "score", "mode": "max", "scheduler": scheduler, **config}),
        run_config=tune.RunConfig(
            name="climb",
            storage_path=str(tmp_path / "storage"),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=failures),
            checkpoint_config=checkpoints,
        ),
    )


def statuses(tmp_path: Path) -> list[str]:
    """What Tune's newest state says of all trials."""
    newest = max((tmp_path / "storage" / "climb").glob("experiment_state-*.json"))
    return [json.loads(state)["status"] for state, _ in json.loads(newest.read_text())["trial_data"]]


def state(tmp_path: Path) -> dict[str, Any]:
    """What the scheduler has kept beside Tune's state."""
    found: dict[str, Any] = json.loads((tmp_path / "storage" / "climb" / "rubberband_state.json").read_text())
    return found


def test_survivors_get_the_slots_of_the_losers(tmp_path):
    scheduler = RubberBandScheduler(max_t=4, reduction_factor=2, max_slots_per_trial=4)
    results = climbs(function(), tmp_path, scheduler, {"x": tune.grid_search([1, 4, 3, 2])}).fit()
    done = sorted((step.x, step.step, step.slots, step.stage, step.until) for step in steps(tmp_path / "log"))
    assert done == [
        (1, 1, 1, 0, 1),
        (2, 1, 1, 0, 1),
        (3, 1, 1, 0, 1),
        (3, 2, 2, 1, 2),
        (4, 1, 1, 0, 1),
        (4, 2, 2, 1, 2),
        (4, 3, 4, 2, 4),
        (4, 4, 4, 2, 4),
    ]
    assert results.get_best_result().config["x"] == 4
    assert statuses(tmp_path) == ["TERMINATED"] * 4
    assert [one["slots_per_trial"] for one in state(tmp_path)["allotments"].values()] == [1, 2, 4]


@pytest.mark.long
def test_class_trainables_are_paused_and_widened_likewise(tmp_path):
    scheduler = RubberBandScheduler(max_t=2, reduction_factor=2, max_slots_per_trial=4)
    climbs(trainable_class(), tmp_path, scheduler, {"x": tune.grid_search([1, 2])}).fit()
    done = sorted((step.x, step.step, step.slots, step.stage, step.until) for step in steps(tmp_path / "log"))
    assert done == [(1, 1, 2, 0, 1), (2, 1, 2, 0, 1), (2, 2, 4, 1, 2)]


@pytest.mark.long
def test_failures_early_ends_and_rotated_checkpoints(tmp_path):
    space = {
        "case": tune.grid_search(
            [{"x": 1, "raises_once": 2}, {"x": 2, "raises": 1}, {"x": 3, "returns": 2}, {"x": 4, "raises_once": 3}]
        )
    }
    inner = function()

    def by_case(config: dict[str, Any]) -> None:
        inner({"log": config["log"], **config["case"]})

    scheduler = RubberBandScheduler(max_t=4, grace_period=2, reduction_factor=2)
    results = climbs(
        by_case,
        tmp_path,
        scheduler,
        space,
        max_failures=1,
        checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
    ).fit()
    done = sorted((step.x, step.step) for step in steps(tmp_path / "log"))
    # Two of four may go on after the first rung: 2 failed for good, 3 had ended, and 1 and 4 were tried again.
    assert done == [*((1, step) for step in (1, 2, 3, 4)), (3, 1), *((4, step) for step in (1, 2, 3, 4))]
    assert len(results.errors) == 1
    assert sorted(statuses(tmp_path)) == ["ERROR"] + ["TERMINATED"] * 3


@pytest.mark.parametrize("keeps", [pytest.param("never", marks=pytest.mark.long), "even"])
def test_a_rung_without_a_checkpoint_is_warned_of_with_its_price(tmp_path, caplog, keeps):
    scheduler = RubberBandScheduler(max_t=6, grace_period=3, reduction_factor=2)
    with caplog.at_level(logging.WARNING, logger="rb_ray"):
        climbs(function(keeps=keeps), tmp_path, scheduler, {"x": tune.grid_search([1, 2])}).fit()
    done = [step.step for step in steps(tmp_path / "log") if step.x == 2]
    again = 3 if keeps == "never" else 1
    assert done == [1, 2, 3, *range(4 - again, 7)]
    (price,) = [record.getMessage() for record in caplog.records if "without a checkpoint" in record.getMessage()]
    assert f"{again} training_iteration will be run again, about " in price
    (back,) = [record.getMessage() for record in caplog.records if "went back" in record.getMessage()]
    assert f"from 3 to {4 - again}" in back


@pytest.mark.long
def test_a_searcher_is_asked_for_all_trials_before_any_runs(tmp_path):
    from ray.tune.search.optuna import OptunaSearch

    scheduler = RubberBandScheduler(max_t=2, reduction_factor=2)
    space = {"x": tune.randint(1, 100)}
    results = climbs(function(), tmp_path, scheduler, space, num_samples=2, search_alg=OptunaSearch(seed=1)).fit()
    assert len(results) == 2
    assert sorted(step.step for step in steps(tmp_path / "log")) == [1, 1, 2]


def test_what_tune_keeps_to_itself_is_where_it_is_taken_from(tmp_path):
    seen = {}

    class Probe(RubberBandScheduler):
        def on_trial_result(self, tune_controller, trial, result):
            seen.update(
                controller=type(_compat.controller(tune_controller)),
                actors=_compat.actors(tune_controller),
                holds=_compat.holds_slots(tune_controller, trial),
                many=_compat.starts_many(tune_controller),
                reuses=_compat.reuses_actors(tune_controller),
                began=_compat.begin_saving(tune_controller),
                copied=tune_controller.search_alg.is_finished(),
            )
            return super().on_trial_result(tune_controller, trial, result)

    climbs(function(), tmp_path, Probe(max_t=1), {"x": 1}).fit()
    assert seen == {
        "controller": TuneController,
        "actors": 1,
        "holds": True,
        "many": True,
        "reuses": False,
        "began": True,
        "copied": True,
    }


def test_time_over_is_the_end(tmp_path):
    scheduler = RubberBandScheduler(max_t=10**9, grace_period=10**8)
    climbs(function(), tmp_path, scheduler, {"x": tune.grid_search([1, 2])}, time_budget_s=4).fit()
    assert set(statuses(tmp_path)) == {"TERMINATED"}


REFUSED = {
    "num_samples": ({"num_samples": -1}, "num_samples=-1"),
    "limit": ({"max_concurrent_trials": 2}, "max_concurrent_trials"),
    "reuse": ({"reuse_actors": True}, "reuse_actors"),
    "metric": ({"metric": None, "mode": None}, "metric"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_what_to_do(tmp_path, case):
    config, named = REFUSED[case]
    scheduler = RubberBandScheduler(max_t=4)
    with pytest.raises(ValueError, match=named):
        climbs(function(), tmp_path, scheduler, {"x": tune.grid_search([1, 2, 3])}, **config).fit()
    assert steps(tmp_path / "log") == []


class Unsaved(tune.Trainable):
    """Nobody can take it up where it was."""

    def step(self):
        return {"score": 1}


def test_a_class_that_cannot_be_saved_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Unsaved cannot be saved: give it `save_checkpoint`"):
        climbs(Unsaved, tmp_path, RubberBandScheduler(max_t=4), {}).fit()


def test_more_than_the_cluster_has_is_given_up_in_bounded_time(tmp_path, monkeypatch):
    from rb_ray.scheduling import fleet

    monkeypatch.setattr(fleet.FixedFleet.__init__, "__kwdefaults__", {"patience_s": 0.5})
    big = tune.with_resources(function(), {"cpu": 64})
    with pytest.raises(LaunchFailure, match=r"'CPU': 64.*room for 0 .*tune.with_resources"):
        climbs(big, tmp_path, RubberBandScheduler(max_t=4), {"x": tune.grid_search([1, 2])}).fit()
