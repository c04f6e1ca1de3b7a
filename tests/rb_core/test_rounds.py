from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_core.errors import InvalidInput
from rb_core.rounds import Rounds
from rb_core.spec import MAX_TRIALS, ExperimentSpec


def halving(r=1, whole=9, eta=3, **more):
    return Rounds(r=r, R=whole, eta=eta, **more)


def shape(spec):
    """Each chain's trials with their iterations in total."""
    chains = []
    for chain in spec.chains:
        done, rungs = 0, []
        for stage in chain:
            done += stage.iterations
            rungs.append((stage.trials, done))
        chains.append(rungs)
    return chains


def test_in_a_full_round_of_halving_one_trial_runs_to_the_end():
    assert shape(halving().full) == [[(9, 1), (3, 3), (1, 9)]]
    assert shape(halving(r=2).full) == [[(9, 2), (3, 6), (1, 9)]]
    assert shape(halving(r=9).full) == [[(1, 9)]]
    assert shape(halving(eta=4).full) == [[(16, 1), (4, 4), (1, 9)]]


def test_a_full_round_of_hyperband_is_all_its_brackets():
    assert halving(hyperband=True).full == ExperimentSpec.hyperband(R=9, eta=3)
    assert halving(r=2, hyperband=True).full == ExperimentSpec.hyperband(R=9, eta=3, r=2)


def test_rounds_follow_each_other_until_there_are_enough_trials():
    assert [spec.trials for spec in halving().of(22)] == [9, 9, 4]
    assert [spec.trials for spec in halving().of(18)] == [9, 9]
    assert list(halving().of(0)) == []


def test_a_smaller_round_keeps_the_rungs_and_the_reduction_factor():
    (spec,) = halving(whole=27).of(10)
    assert shape(spec) == [[(10, 1), (3, 3), (1, 27)]]
    assert [shape(spec) for spec in halving(whole=27).of(1)] == [[[(1, 27)]]]


def test_a_smaller_round_of_hyperband_takes_its_brackets_in_order():
    assert shape(halving(hyperband=True).full) == [[(9, 1), (3, 3), (1, 9)], [(5, 3), (1, 9)], [(3, 9)]]
    assert [shape(spec) for spec in halving(hyperband=True).of(4)] == [[[(4, 1), (1, 9)]]]
    assert [shape(spec) for spec in halving(hyperband=True).of(12)] == [[[(9, 1), (3, 3), (1, 9)], [(3, 3), (1, 9)]]]
    first, second = halving(hyperband=True).of(18)
    assert (first.trials, shape(second)) == (17, [[(1, 9)]])


def test_without_a_number_rounds_never_end():
    assert {spec.trials for spec in islice(halving().of(None), 100)} == {9}


def test_a_few_trials_can_be_had_where_a_full_round_would_have_too_many():
    rounds = halving(whole=2**20, eta=2)
    assert rounds.trials == 2**20 > MAX_TRIALS
    assert shape(next(rounds.of(2))) == [[(2, 1), (1, 2**20)]]
    for trials in (None, 2**20):
        with pytest.raises(InvalidInput, match=f"must be at most {MAX_TRIALS}, got {2**20}"):
            next(rounds.of(trials))


@settings(max_examples=200, deadline=None)
@given(
    r=st.integers(1, 9),
    more=st.integers(0, 100),
    eta=st.integers(2, 5),
    hyperband=st.booleans(),
    trials=st.integers(0, 400),
)
def test_rounds_add_up_and_every_trial_that_is_never_stopped_runs_to_the_end(r, more, eta, hyperband, trials):
    rounds = halving(r=r, whole=r + more, eta=eta, hyperband=hyperband)
    specs = list(rounds.of(trials))
    assert sum(spec.trials for spec in specs) == trials
    assert all(spec == rounds.full for spec in specs[:-1])
    assert rounds.trials == rounds.full.trials
    for spec in specs:
        for chain in shape(spec):
            assert chain[-1][1] == r + more
            assert chain[0][1] >= r


@pytest.mark.parametrize("hyperband", [False, True])
@pytest.mark.parametrize(
    ("given", "key"),
    [({"r": 0}, "r"), ({"r": 10}, "r"), ({"whole": 0, "r": 1}, "R"), ({"whole": 9.0}, "R"), ({"eta": 1}, "eta")],
)
def test_numbers_out_of_their_limits_are_refused_by_name(given, key, hyperband):
    with pytest.raises(InvalidInput) as caught:
        halving(**given, hyperband=hyperband)
    assert caught.value.key == key


def test_a_negative_number_of_trials_is_refused():
    with pytest.raises(InvalidInput, match="trials: must be a finite number of at least 0, got -1"):
        list(halving().of(-1))
