"""What an executor is asked for, and what is refused before anything is asked of the study."""

from __future__ import annotations

from itertools import islice

import optuna
import pytest
from rb_optuna import RubberBandExecutor, RubberBandPruner, RubberBandSampler, terms
from rb_optuna.terms import (
    NO_LIMIT,
    UNMEASURED,
    each_round,
    local_cloud,
    pruner_is_passed_over,
    read_terms,
    share_of_restarts,
    words_on_small_round,
)

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType
from rb_core.plan import Objective
from rb_core.providers.machine import devices
from rb_core.rounds import Rounds
from rb_core.spec import ExperimentSpec
from rb_plugins.tuning import Measuring

NINE = Rounds(r=1, R=9, eta=3)


@pytest.fixture
def study():
    return optuna.create_study(study_name="s", direction="maximize")


@pytest.fixture
def read(study):
    """Terms of a study, with Optuna's own names."""

    def read(study=study, **given):
        values = dict.fromkeys(
            (
                "deadline", "budget_usd", "min_resource", "reduction_factor", "profile", "cloud", "launcher",
                "search_space", "max_usd",
            )
        )  # fmt: skip
        values |= {"max_resource": 9, "hyperband": False, "provider": "local", "planner": "exact", "seed": 0}
        values |= {"unresumable": "restart", "on_deadline": "finish"}
        return read_terms(study, **{**values, **given})

    return read


def cloud(provider="local"):
    node = InstanceType(name="a", slots=1, usd_per_hour=1.0)
    return Cloud(instance_types=(node,), max_nodes=1, provider=provider)


# Refused

WRONG = [
    ({"max_resource": None}, r"^`max_resource` must be given, here or with the study's `RubberBandPruner`"),
    ({"max_resource": 0}, r"^`max_resource` must be a positive integer, got 0\.$"),
    ({"max_resource": 9.0}, r"^`max_resource` must be a positive integer, got 9\.0\.$"),
    ({"max_resource": "9"}, r"^`max_resource` must be a positive integer, got '9'\.$"),
    ({"min_resource": 0}, r"^`min_resource` must be a positive integer, got 0\.$"),
    ({"min_resource": 10}, r"^`min_resource` must not exceed `max_resource` \(9\), got 10\.$"),
    ({"reduction_factor": 1}, r"^`reduction_factor` must be an integer of at least 2, got 1\.$"),
    ({"max_resource": 10**7, "hyperband": True}, r"^A full round has too many trials, .*: raise `min_resource`"),
    ({"deadline": "1h", "budget_usd": 1.0}, r"^Specify either `deadline` or `budget_usd`, not both\.$"),
    ({"deadline": "soon"}, r"^`deadline` must be seconds or a duration such as .*, got 'soon'\.$"),
    ({"deadline": ""}, r"^`deadline` must be seconds"),
    ({"deadline": "-1h"}, r"^`deadline` must be seconds"),
    ({"deadline": 0}, r"^`deadline` must be a finite number above 0, got 0\.$"),
    ({"deadline": "0s"}, r"^`deadline` must be a finite number above 0"),
    ({"deadline": "0x"}, r"^`deadline` must be a finite number above 0"),
    ({"deadline": float("nan")}, r"^`deadline` must be a finite number above 0"),
    ({"deadline": float("inf")}, r"^`deadline` must be a finite number above 0"),
    ({"budget_usd": 0}, r"^`budget_usd` must be a finite number above 0, got 0\.$"),
    ({"budget_usd": "1"}, r"^`budget_usd` must be a finite number above 0"),
    ({"max_usd": -1.0}, r"^`max_usd` must be a finite number above 0, got -1\.0\.$"),
    ({"unresumable": "wait"}, r"^`unresumable` must be 'restart' or 'error', but got 'wait'\.$"),
    ({"on_deadline": "panic"}, r"^`on_deadline` must be one of 'finish', 'stop', but got 'panic'\.$"),
    ({"provider": "ec2"}, r"^`provider='ec2'` needs a `cloud`"),
    ({"provider": "other", "cloud": cloud("ec2")}, r"^`provider` is 'other', but `cloud` names 'ec2'\.$"),
    ({"launcher": "inline", "deadline": "1h"}, r"^The inline launcher has one slot"),
    ({"launcher": "inline", "budget_usd": 1.0}, r"^The inline launcher has one slot"),
    ({"launcher": "inline", "cloud": cloud()}, r"^The inline launcher has one slot"),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_what_is_wrong_is_refused_in_optuna_s_words(read, given, words):
    with pytest.raises(ValueError, match=words):
        read(**given)


@pytest.mark.parametrize("given", [given for given, _ in WRONG])
def test_the_executor_refuses_before_anything_is_asked_of_the_study(study, given):
    with pytest.raises(ValueError):  # noqa: PT011 - the words are looked at above
        RubberBandExecutor(study, **{"max_resource": 9, **given})
    assert study.trials == []
    assert study.user_attrs == {}


def test_several_objectives_are_refused(read):
    study = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="supports single-objective studies only"):
        read(study)
    read(optuna.create_study(directions=["minimize"]))


def test_a_profile_that_cannot_be_read_is_named(read, tmp_path):
    with pytest.raises(InvalidInput, match=r"nowhere\.json: cannot be read"):
        read(profile=tmp_path / "nowhere.json")


# Taken


def test_what_is_left_out_has_optuna_s_defaults(read):
    made = read()
    assert made.rounds == NINE
    assert (made.deadline_s, made.deadline_factor, made.budget_usd, made.max_usd) == (None, None, None, None)
    assert made.profile == Measuring()
    assert made.name == "s"
    assert not made.planned


@pytest.mark.parametrize(
    ("deadline", "seconds", "factor"),
    [(90, 90.0, None), (0.5, 0.5, None), ("90s", 90.0, None), ("1h30m", 5400.0, None), ("1.5x", None, 1.5)],
)
def test_a_deadline_is_seconds_or_words_or_a_multiple(read, deadline, seconds, factor):
    made = read(deadline=deadline)
    assert (made.deadline_s, made.deadline_factor) == (seconds, factor)
    assert made.planned


def test_the_launcher_goes_by_whether_torch_is_there(read, monkeypatch):
    monkeypatch.setitem(terms.sys.modules, "torch", object())
    assert read().launcher == "ddp"
    monkeypatch.delitem(terms.sys.modules, "torch")
    assert read().launcher == "process"
    assert read(launcher="inline").launcher == "inline"


def test_the_pruner_of_a_study_says_what_is_not_said_here(read):
    pruner = RubberBandPruner(min_resource=2, max_resource=16, reduction_factor=4)
    study = optuna.create_study(pruner=pruner)
    assert read(study, max_resource=None).rounds == Rounds(r=2, R=16, eta=4)
    assert read(study, max_resource=32, min_resource=1, reduction_factor=2).rounds == Rounds(r=1, R=32, eta=2)


def test_a_profile_is_taken_as_it_is(read):
    assert read(profile=UNMEASURED).profile is UNMEASURED
    measuring = Measuring(budget_s=7.0)
    assert read(profile=measuring).profile is measuring


@pytest.mark.parametrize(
    ("pruner", "passed_over"),
    [
        (None, False),
        (optuna.pruners.MedianPruner(), False),
        (RubberBandPruner(max_resource=9), False),
        (optuna.pruners.SuccessiveHalvingPruner(), True),
        (optuna.pruners.NopPruner(), True),
    ],
)
def test_a_pruner_of_the_user_s_choice_is_known(pruner, passed_over):
    assert pruner_is_passed_over(optuna.create_study(pruner=pruner)) is passed_over


# This machine


@pytest.mark.parametrize("n_jobs", [1, -1])
def test_all_slots_of_this_machine_are_used_by_default(n_jobs):
    made = local_cloud(n_jobs)
    assert (made.max_nodes, made.instance_types[0].slots) == (len(devices()), 1)
    assert made.instance_types[0].usd_per_hour == 0.0


def test_so_many_slots_are_used_as_are_asked_for(monkeypatch):
    monkeypatch.setattr(terms, "devices", lambda: ("",) * 8)
    assert [local_cloud(n_jobs).max_nodes for n_jobs in (2, 5, 8, 1)] == [2, 5, 8, 8]
    for n_jobs in (0, 9, -2):
        with pytest.raises(ValueError, match=f"^`n_jobs` must be -1 or between 1 and 8, .* but got {n_jobs}"):
            local_cloud(n_jobs)


# What a round is planned for


@pytest.mark.parametrize(
    ("given", "left", "objective"),
    [
        ({"deadline": 100}, 1, Objective(deadline_s=70.0)),
        ({"deadline": 100}, 2, Objective(deadline_s=35.0)),
        ({"deadline": 100}, None, Objective(budget_usd=NO_LIMIT)),
        ({"budget_usd": 10.0}, 1, Objective(budget_usd=6.0)),
        ({"budget_usd": 10.0}, 3, Objective(budget_usd=2.0)),
        ({"budget_usd": 10.0}, None, Objective(deadline_s=NO_LIMIT)),
        ({"deadline": "1.5x"}, 2, Objective(deadline_factor=1.5)),
    ],
)
def test_a_round_has_its_part_of_what_is_left(read, given, left, objective):
    assert read(**given).objective(left=left, gone_s=30.0, spent_usd=4.0) == objective


@pytest.mark.parametrize("given", [{"deadline": 100}, {"budget_usd": 10.0}])
@pytest.mark.parametrize("left", [1, None])
def test_when_nothing_is_left_no_round_is_planned(read, given, left):
    with pytest.raises(InvalidInput, match=next(iter(given))):
        read(**given).objective(left=left, gone_s=100.0, spent_usd=10.0)


# Rounds


def test_a_small_round_is_told_of(read):
    assert words_on_small_round(NINE, 5) == (
        "5 trials are fewer than the 9 of a full round, so a smaller one is run: 5 -> 1."
    )
    brackets = words_on_small_round(Rounds(r=1, R=9, eta=3, hyperband=True), 12)
    assert brackets.endswith("so a smaller one is run: 9 -> 3 -> 1 | 3 -> 1.")
    for enough in (9, 10, None, 0):
        assert words_on_small_round(NINE, enough) == ""


class Desk:
    stopped = False


def test_rounds_come_with_how_many_are_left(study):
    given = [(spec.trials, left) for spec, left in each_round(study, NINE, Desk(), 22)]
    assert given == [(9, 3), (9, 2), (4, 1)]
    endless = islice(each_round(study, NINE, Desk(), None), 20)
    assert [(spec.trials, left) for spec, left in endless] == [(9, None)] * 20
    assert list(each_round(study, NINE, Desk(), 0)) == []


def test_no_round_begins_once_no_trial_is_to(study):
    desk = Desk()
    rounds = each_round(study, NINE, desk, None)
    next(rounds)
    desk.stopped = True
    assert list(rounds) == []


def test_our_sampler_is_told_how_many_trials_a_round_has():
    told = []

    class Told(RubberBandSampler):
        def begin_bracket(self, trials):
            told.append(trials)

    study = optuna.create_study(sampler=Told(seed=0))
    assert len(list(each_round(study, NINE, Desk(), 13))) == 2
    assert told == [9, 4]


def test_the_share_of_restarts():
    spec = ExperimentSpec.successive_halving(n=9, r=1, R=9, eta=3)
    assert share_of_restarts(spec) == (9 * 1 + 3 * 3 + 1 * 9) / (9 * 1 + 3 * 2 + 1 * 6)
