"""The pruner under Optuna's own `ask` and `optimize`: which trials stop, where, and that nothing ever waits."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import optuna
import pytest
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from rb_optuna.pruner import RubberBandPruner

INF, NAN = math.inf, math.nan
DIRECTIONS = pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def new_study(direction: str = "maximize", storage: object = None, **numbers: int | None) -> optuna.Study:
    sampler = optuna.samplers.RandomSampler(seed=0)
    return optuna.create_study(
        direction=direction, storage=storage, pruner=RubberBandPruner(**numbers), sampler=sampler
    )


def told(trial: optuna.Trial, value: float, step: int) -> bool:
    trial.report(value, step)
    return trial.should_prune()


def at(study: optuna.Study, *values: float, step: int = 1) -> list[bool]:
    """New trials that report one value each at the same step: which of them are pruned there."""
    return [told(study.ask(), value, step) for value in values]


def verdicts(trial: optuna.Trial) -> dict[int, bool]:
    attrs = trial.storage.get_trial(trial._trial_id).system_attrs
    prefix = "rubberband:rung_"
    return {int(key.removeprefix(prefix)): attrs[key] for key in attrs if key.startswith(prefix)}


# The numbers it is made of


def test_it_carries_the_numbers_of_the_bracket_for_others_to_read():
    pruner = RubberBandPruner(min_resource=2, max_resource=81, reduction_factor=4)
    assert (pruner.min_resource, pruner.max_resource, pruner.reduction_factor) == (2, 81, 4)
    assert repr(pruner) == "RubberBandPruner(min_resource=2, max_resource=81, reduction_factor=4)"
    assert repr(RubberBandPruner()) == "RubberBandPruner(min_resource=1, max_resource=None, reduction_factor=3)"
    with pytest.raises(AttributeError):
        pruner.min_resource = 1
    with pytest.raises(TypeError):
        RubberBandPruner(1, 81, 3)


def test_it_is_the_same_after_pickling():
    pruner = RubberBandPruner(min_resource=2, max_resource=81)
    assert pickle.loads(pickle.dumps(pruner)) == pruner != RubberBandPruner()


@pytest.mark.parametrize(("name", "low"), [("min_resource", 1), ("max_resource", 1), ("reduction_factor", 2)])
@pytest.mark.parametrize("value", [True, 3.0, "3", NAN, -1, 0, 1])
def test_a_number_that_makes_no_bracket_is_refused(name, low, value):
    if value is not True and value == low:
        assert getattr(RubberBandPruner(**{name: value}), name) == value
        return
    with pytest.raises(
        ValueError, match=rf"^The value of `{name}` is {value!r}, but must be an integer and `{name} >= {low}`"
    ):
        RubberBandPruner(**{name: value})


@pytest.mark.parametrize("name", ["min_resource", "reduction_factor"])
def test_only_the_top_may_be_left_open(name):
    with pytest.raises(ValueError, match=f"`{name}` is None"):
        RubberBandPruner(**{name: None})


def test_the_top_is_not_below_the_bottom():
    assert RubberBandPruner(min_resource=9, max_resource=9).max_resource == 9
    with pytest.raises(
        ValueError, match=r"^The value of `max_resource` is 8, but must be `max_resource >= min_resource` \(9\)"
    ):
        RubberBandPruner(min_resource=9, max_resource=8)


# Where the rungs are


def stopped_at(study: optuna.Study, curve: Callable[[int], float], steps: range) -> int | None:
    trial = study.ask()
    return next((step for step in steps if told(trial, curve(step), step)), None)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("rung", [2, 6, 18])
def test_a_trial_stops_when_the_iterations_of_a_rung_are_done(first, rung):
    """optuna/optuna#5750, #1489: no iteration late, whether steps count from 0 or from 1."""
    study = new_study(min_resource=2)
    steps = range(first, 20 + first)
    assert stopped_at(study, lambda step: 0.5, steps) is None
    last = rung - 1 + first
    assert stopped_at(study, lambda step: 1.0 if step < last else 0.0, steps) == last


@pytest.mark.parametrize(
    ("steps", "passed"),
    [
        ((0, 3, 6, 9), [[1], [1, 3], [1, 3], [1, 3, 9]]),
        ((3, 6, 9), [[1, 3], [1, 3], [1, 3, 9]]),
        ((27,), [[1, 3, 9, 27]]),
    ],
)
def test_a_report_decides_every_rung_that_it_passes_and_no_other(steps, passed):
    trial = new_study().ask()
    seen = []
    for step in steps:
        assert not told(trial, 0.5, step)
        seen.append(sorted(verdicts(trial)))
    assert seen == passed


def test_trials_that_count_from_0_and_from_1_meet_at_the_same_rung():
    study = new_study(min_resource=2)
    from_one, from_zero = study.ask(), study.ask()
    assert not told(from_one, 0.5, 1)
    assert not told(from_one, 0.5, 2)
    assert not told(from_zero, 0.9, 0)
    assert told(from_zero, 0.4, 1)


@pytest.mark.parametrize(
    ("value", "pruned"), [(0.5, {1: False}), (0.7, {1: True, 3: False}), (0.95, {1: True, 3: True})]
)
def test_a_report_past_several_rungs_has_to_win_at_each(value, pruned):
    study = new_study()
    leader = study.ask()
    assert not told(leader, 0.6, 1)
    assert not told(leader, 0.9, 3)
    trial = study.ask()
    assert told(trial, value, 4) is (False in pruned.values())
    assert verdicts(trial) == pruned


def test_a_trial_is_ranked_by_its_first_value_at_or_beyond_the_rung():
    study = new_study(min_resource=4)
    leader = study.ask()
    for step, value in ((2, 0.1), (5, 0.5), (8, 0.9)):
        assert not told(leader, value, step)
    assert at(study, 0.6, 0.4, step=4) == [False, True]


def test_no_report_no_verdict():
    assert not new_study().ask().should_prune()


@pytest.mark.parametrize(("top", "rungs"), [(1, []), (2, [1]), (9, [1, 3]), (10, [1, 3, 9]), (None, [1, 3, 9])])
def test_no_rung_lies_at_or_beyond_the_top(top, rungs):
    trial = new_study(max_resource=top).ask()
    assert not any(told(trial, 0.5, step) for step in range(12))
    assert sorted(verdicts(trial)) == rungs


@pytest.mark.parametrize("value", [0.0, -INF, NAN])
def test_who_reached_the_top_is_never_pruned(value):
    study = new_study(max_resource=9)
    assert at(study, 1.0, 1.0, 1.0, step=8) == [False, False, False]
    assert at(study, value, step=8) == [True]
    assert at(study, value, step=9) == [False]


# Who is among the best


@DIRECTIONS
def test_one_in_reduction_factor_goes_on(direction, sign):
    study = new_study(direction)
    scores = [0.5, 0.4, 0.6, 0.55, 0.3, 0.58, 0.57, 0.1, 0.59]
    best = [True, False, True, False, False, True, False, False, True]
    assert at(study, *(sign * score for score in scores)) == [not goes_on for goes_on in best]


@DIRECTIONS
def test_while_they_are_few_only_the_best_so_far_goes_on(direction, sign):
    study = new_study(direction, reduction_factor=4)
    assert at(study, *(sign * score for score in (0.5, 0.4, 0.6, 0.5))) == [False, True, False, True]


def test_equal_results_fare_alike():
    assert at(new_study(), *[0.5] * 7) == [False] * 7


@DIRECTIONS
def test_nan_loses_wherever_it_comes(direction, sign):
    assert at(new_study(direction), NAN, NAN, sign * -INF, NAN) == [True, True, False, True]


def test_nan_counts_among_the_results():
    assert at(new_study(), 0.9, NAN, NAN, NAN, NAN, 0.8) == [False, True, True, True, True, False]


@DIRECTIONS
def test_infinities_compare_as_floats(direction, sign):
    study = new_study(direction)
    values = (-INF, -1e308, INF, 1e308, INF)
    assert at(study, *(sign * value for value in values)) == [False, False, False, True, False]


def reference(scores: list[list[float]], order: list[int], factor: int, sign: float) -> dict[int, int]:
    """Where each trial ends, replayed on sorted lists: trials report at the next rung in the order given."""
    boards: list[list[float]] = [[] for _ in scores[0]]
    height = dict.fromkeys(range(len(scores)), 0)
    out: set[int] = set()
    for trial in order:
        rung = height[trial]
        if trial in out or rung == len(boards):
            continue
        score = scores[trial][rung]
        key = INF if math.isnan(score) else -sign * score
        boards[rung].append(key)
        board = sorted(boards[rung])
        if math.isnan(score) or key > board[max(len(board) // factor, 1) - 1]:
            out.add(trial)
        else:
            height[trial] += 1
    return height


@DIRECTIONS
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_trials_end_where_a_replay_on_sorted_lists_ends_them(direction, sign, factor):
    rungs = [factor**k for k in range(3)]
    for seed in range(20):
        draw = random.Random(seed)
        choices = [draw.random() for _ in range(8)] + [NAN]
        scores = [[draw.choice(choices) for _ in rungs] for _ in range(12)]
        order = draw.sample(list(range(12)) * 3, k=36)
        study = new_study(direction, reduction_factor=factor)
        trials = [study.ask() for _ in scores]
        height, out = dict.fromkeys(range(12), 0), set()
        for number in order:
            if number in out or height[number] == len(rungs):
                continue
            if told(trials[number], scores[number][height[number]], rungs[height[number]]):
                out.add(number)
            else:
                height[number] += 1
        assert height == reference(scores, order, factor, sign), seed


# What holds in any order, and what does not: optuna/optuna#404, #388


def ends(order: tuple[float, ...]) -> set[float]:
    """The scores that go on from the first rung when trials report there in this order."""
    pruned = at(new_study(), *order)
    return {score for score, stops in zip(order, pruned, strict=True) if not stops}


def test_the_best_trial_goes_on_in_any_order():
    assert all(0.6 in ends(order) for order in permutations((0.1, 0.2, 0.3, 0.4, 0.5, 0.6)))


def test_the_second_best_of_six_is_not_sure_to_go_on():
    assert 0.5 in ends((0.5, 0.6, 0.4, 0.3, 0.2, 0.1))
    assert 0.5 not in ends((0.6, 0.5, 0.4, 0.3, 0.2, 0.1))


def test_of_trials_that_report_before_any_asks_the_best_third_goes_on_in_any_order():
    """What a trial is measured against is what has been reported, not who has asked before it."""
    for order in permutations(range(6)):
        study = new_study()
        trials = [study.ask() for _ in range(6)]
        for number, trial in enumerate(trials):
            trial.report(number / 10, 1)
        assert {number for number in order if not trials[number].should_prune()} == {4, 5}


# A rung is decided once


def test_who_went_on_is_not_stopped_by_what_comes_later():
    study = new_study()
    early = study.ask()
    assert not told(early, 0.1, 1)
    at(study, *[0.9] * 5)
    assert not early.should_prune()
    assert not told(early, 0.1, 2)
    at(study, *[0.9] * 5, step=3)
    assert told(early, 0.1, 3)


def test_who_was_stopped_stays_stopped():
    study = new_study()
    at(study, 0.9)
    late = study.ask()
    assert told(late, 0.8, 1)
    assert late.should_prune()
    at(study, *[0.1] * 10)
    assert late.should_prune()
    assert told(late, 1.0, 2)


def test_a_rung_that_nobody_asked_about_is_decided_at_the_next_question():
    study = new_study()
    at(study, 0.9)
    trial = study.ask()
    for step in range(1, 6):
        trial.report(0.5, step)
    assert trial.should_prune()
    assert verdicts(trial) == {1: False}


def test_it_can_be_wrapped_in_a_pruner_that_seldom_asks():
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        patient = optuna.pruners.PatientPruner(RubberBandPruner(), patience=1)
    study = optuna.create_study(direction="maximize", pruner=patient)
    leader, trial = study.ask(), study.ask()
    assert not any(told(leader, step / 10, step) for step in range(1, 6))
    assert [told(trial, value, step) for step, value in enumerate((0.05, 0.04, 0.03, 0.02), start=1)][-1]


class Counting(InMemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.readings = 0

    def get_all_trials(self, *args, **kwargs):
        self.readings += 1
        return super().get_all_trials(*args, **kwargs)


def test_the_study_is_read_once_for_each_rung_and_not_in_between():
    storage = Counting()
    trial = new_study(storage=storage, min_resource=3, max_resource=81).ask()
    before = storage.readings
    for step in range(81):
        assert not told(trial, 0.5, step)
        assert not trial.should_prune()
    assert storage.readings - before == len([3, 9, 27])


# Whatever the state of the study


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.WAITING])
def test_a_result_counts_whatever_became_of_its_trial(state):
    study = new_study()
    trial = study.ask()
    value = {"value": 1.0} if state == TrialState.COMPLETE else {}
    study.add_trial(optuna.create_trial(state=state, intermediate_values={1: 0.9}, **value))
    assert told(trial, 0.8, 1)


def test_trials_without_results_do_not_count():
    study = new_study()
    for _ in range(6):
        study.ask()
    study.add_trial(optuna.create_trial(value=1.0))
    assert at(study, 0.5, 0.4) == [False, True]


def test_a_finished_trial_is_judged_without_leaving_a_trace():
    study = new_study()
    study.add_trial(optuna.create_trial(value=1.0, intermediate_values={1: 0.9}))
    study.add_trial(optuna.create_trial(value=0.5, intermediate_values={1: 0.5}))
    first, second = study.trials
    assert [study.pruner.prune(study, trial) for trial in (first, second)] == [False, True]
    assert [trial.system_attrs for trial in study.trials] == [{}, {}]


def test_several_objectives_are_refused_as_by_optuna():
    study = optuna.create_study(directions=["minimize", "maximize"], pruner=RubberBandPruner())
    trial = study.ask()
    with pytest.raises(NotImplementedError):
        trial.report(0.5, 1)
    with pytest.raises(NotImplementedError):
        trial.should_prune()


# Other storages, other processes


def journal(folder: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(folder / "journal.log")))


def sqlite(folder: Path) -> RDBStorage:
    return RDBStorage(f"sqlite:///{folder / 'study.db'}")


@pytest.mark.parametrize("make", [journal, sqlite])
def test_handles_of_one_study_see_the_same_results_and_verdicts(make, tmp_path):
    one = new_study(storage=make(tmp_path))
    two = optuna.load_study(study_name=one.study_name, storage=make(tmp_path), pruner=RubberBandPruner())
    leader, beaten = one.ask(), two.ask()
    assert not told(leader, 0.5, 1)
    assert told(beaten, 0.4, 1)
    assert not told(two.ask(), 0.6, 1)
    assert told(one.ask(), 0.4, 1)
    assert told(one.ask(), NAN, 1)
    assert not told(two.ask(), INF, 1)
    at(one, *[0.1] * 20)
    attached = optuna.Trial(one, beaten._trial_id)
    assert attached.should_prune()
    assert verdicts(attached) == {1: False}


def test_a_study_loaded_without_it_has_optunas_pruner_and_its_results_count_later(tmp_path):
    new = new_study(storage=sqlite(tmp_path))
    assert not told(new.ask(), 0.5, 1)
    plain = optuna.load_study(study_name=new.study_name, storage=sqlite(tmp_path))
    assert isinstance(plain.pruner, optuna.pruners.MedianPruner)
    trial = plain.ask()
    assert not told(trial, 0.4, 1)
    assert not told(trial, 0.7, 3)
    again = optuna.load_study(study_name=new.study_name, storage=sqlite(tmp_path), pruner=RubberBandPruner())
    late = again.ask()
    assert not told(late, 0.6, 1)
    assert told(late, 0.6, 3)


# Under study.optimize


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_it_never_waits_for_another_trial(n_jobs):
    study = new_study(max_resource=9)

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 0.0, 1.0)
        for epoch in range(9):
            trial.report(rate * (epoch + 1), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return rate * 9

    study.optimize(objective, n_trials=27, n_jobs=n_jobs)
    epochs = {
        state: {len(trial.intermediate_values) for trial in study.get_trials(states=(state,))} for state in TrialState
    }
    assert epochs[TrialState.COMPLETE] == {9}
    assert epochs[TrialState.PRUNED]
    assert epochs[TrialState.PRUNED] <= {1, 3}
    assert not any(epochs[state] for state in (TrialState.RUNNING, TrialState.WAITING, TrialState.FAIL))
    assert study.best_trial.params["rate"] == max(trial.params["rate"] for trial in study.trials)
