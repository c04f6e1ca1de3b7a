from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_core.errors import InvalidInput
from rb_core.spec import MAX_TRIALS, ExperimentSpec, Stage


def pairs(spec, chain=0):
    return [(stage.trials, stage.iterations) for stage in spec.chains[chain]]


def test_incremental_halving_is_the_paper_s():
    spec = ExperimentSpec.successive_halving(n=64, r=4, R=508, eta=2, rungs="incremental")
    assert pairs(spec) == [(64, 4), (32, 8), (16, 16), (8, 32), (4, 64), (2, 128), (1, 256)]


def test_cumulative_halving_puts_rungs_at_totals():
    assert pairs(ExperimentSpec.successive_halving(n=27, r=1, R=9, eta=3)) == [(27, 1), (9, 2), (3, 6)]


def test_the_last_trial_runs_on_to_R():
    assert pairs(ExperimentSpec.successive_halving(n=4, r=1, R=100, eta=2)) == [(4, 1), (2, 1), (1, 98)]


def test_a_rung_at_R_is_added_where_the_others_miss_it():
    assert pairs(ExperimentSpec.successive_halving(n=64, r=4, R=10, eta=2)) == [(64, 4), (32, 4), (16, 2)]


def test_incremental_halving_cuts_its_last_stage_at_R():
    spec = ExperimentSpec.successive_halving(n=64, r=4, R=20, eta=2, rungs="incremental")
    assert pairs(spec) == [(64, 4), (32, 8), (16, 8)]


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 300),
    r=st.integers(1, 50),
    more=st.integers(0, 500),
    eta=st.integers(2, 5),
    rungs=st.sampled_from(["cumulative", "incremental"]),
)
def test_halving_keeps_its_definition(n, r, more, eta, rungs):
    whole = r + more
    stages = pairs(ExperimentSpec.successive_halving(n=n, r=r, R=whole, eta=eta, rungs=rungs))
    assert sum(iterations for _, iterations in stages) == whole
    total = 0
    for k, (trials, iterations) in enumerate(stages):
        assert trials == max(1, n // eta**k)
        total += iterations
        if k < len(stages) - 1:
            assert trials > 1
            assert (total if rungs == "cumulative" else iterations) == r * eta**k
            assert total < whole


def test_what_all_trials_run_is_summed():
    spec = ExperimentSpec.hyperband(R=3, eta=3)
    assert [pairs(spec, chain) for chain in (0, 1)] == [[(3, 1), (1, 2)], [(2, 3)]]
    assert (spec.trials, spec.trial_stages, spec.trial_iterations) == (5, 6, 11)


def test_hyperband_81_3_is_the_published_table():
    spec = ExperimentSpec.hyperband(R=81, eta=3)
    assert [chain[0].trials for chain in spec.chains] == [81, 34, 15, 8, 5]
    assert pairs(spec, 0) == [(81, 1), (27, 2), (9, 6), (3, 18), (1, 54)]
    assert pairs(spec, 1) == [(34, 3), (11, 6), (3, 18), (1, 54)]
    assert pairs(spec, 4) == [(5, 81)]
    assert spec.trials == 143


@pytest.mark.parametrize("eta", [2, 3, 4, 7])
@pytest.mark.parametrize("whole", [1, 2, 8, 27, 80, 81, 82, 243, 1000])
def test_hyperband_keeps_its_definition(whole, eta):
    spec = ExperimentSpec.hyperband(R=whole, eta=eta)
    s_max = max(s for s in range(20) if eta**s <= whole)
    assert len(spec.chains) == s_max + 1
    for s, chain in zip(range(s_max, -1, -1), spec.chains, strict=True):
        n = -(-Fraction(s_max + 1, s + 1) * eta**s // 1)
        total = 0
        assert len(chain) == s + 1
        for i, stage in enumerate(chain):
            total += stage.iterations
            assert stage.trials == n // eta**i
            assert total == max(1, int(Fraction(whole) * Fraction(eta) ** (i - s)))


def test_hyperband_counts_its_brackets_in_integers():
    # log(243) / log(3) is 4.999... in binary floating point.
    assert len(ExperimentSpec.hyperband(R=243, eta=3).chains) == 6


@pytest.mark.parametrize("eta", [2, 3, 4])
@pytest.mark.parametrize("least", [1, 2, 3, 7, 27])
@pytest.mark.parametrize("whole", [27, 80, 81, 1000])
def test_hyperband_leaves_out_the_brackets_that_begin_too_low(whole, least, eta):
    spec = ExperimentSpec.hyperband(R=whole, eta=eta, r=least)
    s_max = max(s for s in range(20) if least * eta**s <= whole)
    assert [chain[0].iterations for chain in spec.chains] == [whole // eta**s for s in range(s_max, -1, -1)]
    assert min(chain[0].iterations for chain in spec.chains) >= least
    assert [chain[0].trials for chain in spec.chains] == [
        -(-(s_max + 1) * eta**s // (s + 1)) for s in range(s_max, -1, -1)
    ]


def test_trials_that_cannot_be_resumed_begin_every_stage_with_their_first_iteration():
    spec = ExperimentSpec.hyperband(R=9, eta=3)
    assert [pairs(spec.from_nothing, chain) for chain in range(3)] == [
        [(9, 1), (3, 3), (1, 9)],
        [(5, 3), (1, 9)],
        [(3, 9)],
    ]
    assert (spec.trial_iterations, spec.from_nothing.trial_iterations) == (9 + 6 + 6 + 15 + 6 + 27, 27 + 24 + 27)
    one = ExperimentSpec.from_stages([(4, 10)])
    assert one.from_nothing == one


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"n": 0, "r": 1, "R": 2, "eta": 2}, "n"),
        ({"n": 4, "r": 3, "R": 2, "eta": 2}, "r"),
        ({"n": 4, "r": 1, "R": 2.5, "eta": 2}, "R"),
        ({"n": 4, "r": 1, "R": 2, "eta": 1}, "eta"),
        ({"n": 4, "r": 1, "R": 2, "eta": True}, "eta"),
        ({"n": 4, "r": 1, "R": 2, "eta": 2, "rungs": "other"}, "rungs"),
    ],
)
def test_halving_refuses_by_name(given, key):
    with pytest.raises(InvalidInput) as caught:
        ExperimentSpec.successive_halving(**given)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"R": 0, "eta": 3}, "R"),
        ({"R": 9, "eta": 1}, "eta"),
        ({"R": 9, "eta": 3, "r": 0}, "r"),
        ({"R": 9, "eta": 3, "r": 10}, "r"),
        ({"R": 9, "eta": 3, "r": 1.0}, "r"),
    ],
)
def test_hyperband_refuses_by_name(given, key):
    with pytest.raises(InvalidInput) as caught:
        ExperimentSpec.hyperband(**given)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("stages", "key"),
    [
        ([], "stages"),
        ([(0, 1)], "stages[0].trials"),
        ([(4, 1), (2, 0)], "stages[1].iterations"),
        ([(2, 1), (3, 1)], "stages[1].trials"),
        ([(MAX_TRIALS + 1, 1)], "stages[0].trials"),
    ],
)
def test_free_form_refuses_by_path(stages, key):
    with pytest.raises(InvalidInput) as caught:
        ExperimentSpec.from_stages(stages)
    assert caught.value.key == key


def test_an_error_in_one_of_several_chains_names_the_chain():
    good = (Stage(trials=2, iterations=1),)
    bad = (Stage(trials=1, iterations=1), Stage(trials=2, iterations=1))
    with pytest.raises(InvalidInput, match=r"^chains\[1\]\.stages\[1\]\.trials: must not exceed the 1 trials"):
        ExperimentSpec(chains=(good, bad))


def test_no_chain_is_refused():
    with pytest.raises(InvalidInput, match="chains"):
        ExperimentSpec(chains=())


def test_totals():
    spec = ExperimentSpec.from_stages([(4, 10), Stage(trials=2, iterations=20)])
    assert (spec.trials, spec.trial_iterations) == (4, 80)


def test_a_million_trials_of_a_billion_iterations_are_a_spec():
    assert ExperimentSpec.from_stages([(10**6, 10**9)]).trial_iterations == 10**15
