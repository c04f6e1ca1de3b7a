from __future__ import annotations

import pickle
import warnings
from collections import Counter

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from rb_optuna.sampler import RubberBandSampler


def study_with(sampler: RubberBandSampler, direction: str = "minimize", storage: str | None = None) -> optuna.Study:
    return optuna.create_study(direction=direction, sampler=sampler, storage=storage)


def suggested(trial: optuna.Trial) -> float:
    return trial.suggest_float("x", -1.0, 1.0)


def run_bracket(study: optuna.Study, trials: int, survivors: int = 0, near: float = 0.5) -> list[float]:
    """Ask for so many, report |x - near| at resource 1; the first few also report at 3 and complete."""
    asked = [study.ask() for _ in range(trials)]
    xs = [suggested(trial) for trial in asked]
    for k, (trial, x) in enumerate(zip(asked, xs, strict=True)):
        trial.report(abs(x - near), 1)
        if k < survivors:
            trial.report(abs(x - near), 3)
            study.tell(trial, abs(x - near))
        else:
            study.tell(trial, state=TrialState.PRUNED)
    return xs


def history(xs: list[float], values: dict[int, list[float]], state: TrialState = TrialState.PRUNED) -> list:
    """Trials at these places that report `values[step][k]` at each step."""
    return [
        optuna.create_trial(
            state=state,
            value=values[max(values)][k],
            params={"x": x},
            distributions={"x": FloatDistribution(-1.0, 1.0)},
            intermediate_values={step: own[k] for step, own in values.items()},
        )
        for k, x in enumerate(xs)
    ]


def share_near(xs: list[float], near: float = 0.5) -> float:
    """How many lie within 0.2 of it, of what is evenly spread a fifth."""
    return sum(abs(x - near) < 0.2 for x in xs) / len(xs)


GRID = [k / 10 - 0.95 for k in range(20)]


def mean_of_model(trials: list, direction: str = "minimize", **changed) -> float:
    """Where the model's suggestions lie on average."""
    study = study_with(RubberBandSampler(seed=1, random_fraction=0.0, **changed), direction)
    study.add_trials(trials)
    return sum(suggested(study.ask()) for _ in range(10)) / 10


def test_first_bracket_fills_every_parameter_evenly():
    study = study_with(RubberBandSampler(seed=4, bracket_trials=32))
    asked = [study.ask() for _ in range(32)]
    xs = [suggested(trial) for trial in asked]
    kinds = [trial.suggest_categorical("kind", "abcd") for trial in asked]
    ints = [trial.suggest_int("n", 0, 15) for trial in asked]
    assert sorted(int((x + 1) * 16) for x in xs) == list(range(32))
    assert set(Counter(kinds).values()) == {8}
    assert set(Counter(ints).values()) == {2}
    assert len(set(zip(kinds, ints, strict=True))) > 20


def test_no_trial_of_a_bracket_sees_a_result_of_it():
    """However early its trials report, a bracket gets the same points."""
    at_once = study_with(RubberBandSampler(seed=4, bracket_trials=20, random_fraction=0.0))
    together = [suggested(at_once.ask()) for _ in range(20)]
    one_by_one = study_with(RubberBandSampler(seed=4, bracket_trials=20, random_fraction=0.0))
    apart = [run_bracket(one_by_one, 1)[0] for _ in range(20)]
    assert apart == together


def test_later_brackets_do_not_depend_on_when_their_trials_report():
    xs = []
    for batches in ([12], [1] * 12, [5, 7]):
        sampler = RubberBandSampler(seed=4, bracket_trials=12)
        study = study_with(sampler)
        run_bracket(study, 12)
        sampler.begin_bracket(12)
        xs.append([x for batch in batches for x in run_bracket(study, batch)])
    assert xs[0] == xs[1] == xs[2]


def test_second_bracket_gathers_where_the_first_was_good():
    first, second = [], []
    for seed in range(5):
        sampler = RubberBandSampler(seed=seed, bracket_trials=27)
        study = study_with(sampler)
        first += run_bracket(study, 27)
        sampler.begin_bracket(27)
        second += run_bracket(study, 27)
    assert share_near(first) == pytest.approx(0.2, abs=0.02)
    assert share_near(second) > 0.35


def test_without_brackets_every_trial_sees_all_results():
    study = study_with(RubberBandSampler(seed=4, random_fraction=0.0))
    xs = [run_bracket(study, 1)[0] for _ in range(60)]
    assert share_near(xs[20:]) > 0.35


def test_random_fraction_is_kept():
    """With a fraction of one the model is never asked, with one third about a third keeps to the sequence."""
    everything = study_with(RubberBandSampler(seed=9, random_fraction=1.0))
    everything.add_trials(history(GRID, {1: [abs(x) for x in GRID]}))
    points = [suggested(everything.ask()) for _ in range(96)]
    some = study_with(RubberBandSampler(seed=9))
    some.add_trials(history(GRID, {1: [abs(x) for x in GRID]}))
    kept = sum(suggested(some.ask()) == point for point in points)
    assert 28 <= kept <= 36


def test_model_is_of_the_highest_rung_with_enough_results():
    good_early, good_late = [abs(x + 0.7) for x in GRID], [abs(x - 0.7) for x in GRID]
    assert mean_of_model(history(GRID, {1: good_early})) < -0.3
    assert mean_of_model(history(GRID, {1: good_early, 3: good_late})) > 0.3
    few = history(GRID[:3], {1: good_early[:3], 3: good_late[:3]})
    assert mean_of_model(history(GRID, {1: good_early}) + few) < -0.3, "3 results are too few for one parameter"
    assert mean_of_model(history(GRID, {1: good_early, 2: good_late})) < -0.3, "2 is no rung"
    assert mean_of_model(history(GRID, {1: good_early, 2: good_late}), reduction_factor=2) > 0.3
    assert mean_of_model(history(GRID, {1: good_early, 2: good_late}), min_resource=2) > 0.3


def test_enough_is_two_more_than_parameters_plus_one():
    for results, modelled in ((3, False), (4, True)):
        study = study_with(RubberBandSampler(seed=2, random_fraction=0.0))
        study.add_trials(history(GRID[:results], {1: GRID[:results]}))
        bare = study_with(RubberBandSampler(seed=2, random_fraction=1.0))
        bare.add_trials(history(GRID[:results], {1: GRID[:results]}))
        assert (suggested(study.ask()) != suggested(bare.ask())) == modelled


def test_direction():
    trials = history(GRID, {1: GRID})
    assert mean_of_model(trials, "minimize") < -0.3
    assert mean_of_model(trials, "maximize") > 0.3


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_nan_is_the_worst(direction):
    sign = 1 if direction == "minimize" else -1
    values = [float("nan") if x < 0 else sign * (1 + abs(x - 0.6)) for x in GRID]
    assert mean_of_model(history(GRID, {1: values}), direction) > 0.3


def test_suspended_trials_count_and_failed_ones_do_not():
    study = study_with(RubberBandSampler(seed=1, random_fraction=0.0))
    for x in GRID:
        study.enqueue_trial({"x": x})
    for _ in GRID:
        trial = study.ask()
        trial.report(abs(suggested(trial) - 0.7), 1)
    xs = []
    for _ in range(10):
        trial = study.ask()
        xs.append(suggested(trial))
        study.tell(trial, state=TrialState.FAIL)
    assert sum(xs) / 10 > 0.3
    failed = history(GRID, {1: [abs(x + 0.7) for x in GRID]})
    for trial in failed:
        trial.state, trial.value = TrialState.FAIL, None
    study.add_trials(failed)
    assert sum(suggested(study.ask()) for _ in range(10)) / 10 > 0.3


def test_trials_that_report_nothing_count_with_their_final_value():
    trials = history(GRID, {1: [abs(x - 0.7) for x in GRID]}, TrialState.COMPLETE)
    for trial in trials:
        trial.intermediate_values = {}
    assert mean_of_model(trials) > 0.3


def test_same_seed_same_parameters():
    def xs(seed):
        sampler = RubberBandSampler(seed=seed, bracket_trials=9)
        study = study_with(sampler)
        own = run_bracket(study, 9, 3)
        sampler.begin_bracket(9)
        return own + run_bracket(study, 9, 3)

    assert xs(5) == xs(5)
    assert xs(5) != xs(6)
    assert xs(None) != xs(None)


def test_pickled_in_between_it_goes_on_alike():
    sampler = RubberBandSampler(seed=5, bracket_trials=9)
    study = study_with(sampler)
    run_bracket(study, 9)
    sampler.begin_bracket(9)
    run_bracket(study, 2)
    copy = pickle.loads(pickle.dumps(sampler))
    expected = [suggested(study.ask()) for _ in range(3)]
    again = study_with(copy)
    again.add_trials(study.trials[:11])
    assert [suggested(again.ask()) for _ in range(3)] == expected


def test_reseeding_changes_the_model_and_keeps_the_sequence():
    def ask(reseed, fraction):
        sampler = RubberBandSampler(seed=5, random_fraction=fraction)
        study = study_with(sampler)
        study.add_trials(history(GRID, {1: GRID}))
        if reseed:
            sampler.reseed_rng()
        return [suggested(study.ask()) for _ in range(4)]

    assert ask(reseed=True, fraction=1.0) == ask(reseed=False, fraction=1.0)
    assert ask(reseed=True, fraction=0.0) != ask(reseed=False, fraction=0.0)


def test_conditional_parameters_are_modelled():
    study = study_with(RubberBandSampler(seed=5, random_fraction=0.0))

    def objective(trial):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        if kind == "a":
            return 1.0 + trial.suggest_float("x", 0.0, 1.0)
        return trial.suggest_int("y", 1, 100, log=True) / 100

    study.optimize(objective, n_trials=60)
    late = study.trials[30:]
    assert sum(trial.params["kind"] == "b" for trial in late) > 20
    assert min(trial.params["y"] for trial in late if "y" in trial.params) <= 3


def test_works_beside_optunas_hyperband():
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9, reduction_factor=3)
    study = optuna.create_study(sampler=RubberBandSampler(seed=5), pruner=pruner)

    def objective(trial):
        x = suggested(trial)
        for step in range(1, 10):
            trial.report(abs(x - 0.5), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return abs(x - 0.5)

    study.optimize(objective, n_trials=40)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE, TrialState.PRUNED}


def test_constraints_reach_the_model():
    """What breaks a constraint is not good, however low it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        sampler = RubberBandSampler(
            seed=5, random_fraction=0.0, constraints_func=lambda trial: (trial.params["x"] + 0.1,)
        )
    study = study_with(sampler)
    xs = []
    for _ in range(60):
        trial = study.ask()
        xs.append(suggested(trial))
        trial.report(-xs[-1], 1)
        study.tell(trial, -xs[-1])
    assert sum(x < 0 for x in xs[30:]) > 20


def test_storage_that_keeps_trials_elsewhere(tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    stored, kept = (study_with(RubberBandSampler(seed=7), storage=storage) for storage in (url, None))
    assert [run_bracket(stored, 6) for _ in range(2)] == [run_bracket(kept, 6) for _ in range(2)]


def test_several_objectives_are_refused():
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=RubberBandSampler())
    with pytest.raises(ValueError, match="multi-objective"):
        suggested(study.ask())


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("bracket_trials", 0),
        ("bracket_trials", 2.5),
        ("min_resource", 0),
        ("reduction_factor", 1),
        ("reduction_factor", True),
        ("random_fraction", 1.5),
        ("random_fraction", float("nan")),
    ],
)
def test_arguments_out_of_range(argument, value):
    with pytest.raises(ValueError, match=f"The value of `{argument}` is"):
        RubberBandSampler(**{argument: value})
    with pytest.raises(ValueError, match="`bracket_trials` is -1"):
        RubberBandSampler().begin_bracket(-1)


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_fixed_search_space(fraction):
    space = {
        "f": FloatDistribution(1e-5, 1.0, log=True),
        "s": FloatDistribution(0.0, 1.0, step=0.25),
        "i": IntDistribution(1, 64, log=True),
        "k": IntDistribution(3, 9, step=3),
        "c": CategoricalDistribution([None, "a", 2.5]),
        "one": IntDistribution(4, 4),
    }
    study = study_with(RubberBandSampler(seed=2, random_fraction=fraction))
    seen = []
    for _ in range(40):
        trial = study.ask(space)
        seen.append(trial.params)
        study.tell(trial, trial.params["f"] + trial.params["s"])
    assert {params["s"] for params in seen} <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert {params["k"] for params in seen} <= {3, 6, 9}
    assert {params["one"] for params in seen} == {4}
    assert all(type(params["i"]) is int and 1 <= params["i"] <= 64 for params in seen)
    assert all(type(params["f"]) is float and 1e-5 <= params["f"] <= 1.0 for params in seen)
