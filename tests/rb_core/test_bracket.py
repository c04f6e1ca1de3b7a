import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rb_core.bracket import Bracket, Decision, Verdict
from rb_core.errors import InvalidInput, PluginConflict
from rb_core.spec import Stage


def chain(*stages):
    return tuple(Stage(trials=n, iterations=e) for n, e in stages)


FOUR = chain((4, 10), (2, 20), (1, 40))


def reported(bracket, rung, scores):
    for trial, score in scores.items():
        bracket.report(trial, rung, score)
    return bracket


def test_below_its_rung_a_trial_continues_and_at_it_waits():
    bracket = Bracket(FOUR, "max")
    assert bracket.report(0, 9, 0.5) is Verdict.CONTINUE
    assert bracket.report(0, 10, 0.5) is Verdict.WAIT
    assert not bracket.complete


def test_the_best_go_on_and_are_named_by_rank():
    bracket = reported(Bracket(FOUR, "max"), 10, {7: 0.1, 3: 0.4, 5: 0.3, 9: 0.2})
    assert bracket.complete
    assert bracket.decide() == Decision(stage=0, survivors=(3, 5), stopped=(9, 7))
    assert [bracket.verdict(t) for t in (3, 5, 7, 9)] == [
        Verdict.CONTINUE,
        Verdict.CONTINUE,
        Verdict.STOP,
        Verdict.STOP,
    ]


def test_in_mode_min_the_smallest_scores_are_best():
    bracket = reported(Bracket(FOUR, "min"), 10, {0: 3.0, 1: 1.0, 2: 2.0, 3: -math.inf})
    assert bracket.decide().survivors == (3, 1)


def test_of_equal_scores_the_lower_number_goes_on():
    bracket = reported(Bracket(FOUR, "max"), 10, {3: 1.0, 2: 1.0, 1: 1.0, 0: 0.0})
    assert bracket.decide().survivors == (1, 2)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_nan_ranks_behind_every_number(mode):
    worst = -math.inf if mode == "max" else math.inf
    bracket = reported(Bracket(FOUR, mode), 10, {0: math.nan, 1: math.nan, 2: worst, 3: 0.0})
    assert bracket.decide() == Decision(stage=0, survivors=(3, 2), stopped=(0, 1))


def test_one_report_may_pass_several_rungs():
    bracket = Bracket(FOUR, "max")
    bracket.report(0, 70, 0.9)
    reported(bracket, 10, {1: 0.5, 2: 0.4, 3: 0.3})
    assert bracket.decide().survivors == (0, 1)
    assert bracket.verdict(0) is Verdict.WAIT
    bracket.report(1, 30, 0.95)
    assert bracket.decide() == Decision(stage=1, survivors=(1,), stopped=(0,))
    assert bracket.rung == 70


def test_the_score_of_a_rung_is_the_first_one_at_or_beyond_it():
    bracket = Bracket(FOUR, "max")
    bracket.report(0, 9, 9.0)
    bracket.report(0, 12, 0.1)
    bracket.report(0, 13, 9.0)
    reported(bracket, 10, {1: 0.2, 2: 0.3, 3: 0.0})
    assert bracket.decide().survivors == (2, 1)


def test_a_failed_trial_leaves_and_the_rung_shrinks():
    bracket = reported(Bracket(FOUR, "max"), 10, {0: 0.1, 1: 0.2})
    bracket.fail(2)
    assert not bracket.complete
    bracket.fail(3)
    bracket.fail(3)
    assert bracket.complete
    assert bracket.decide() == Decision(stage=0, survivors=(1, 0), stopped=())
    assert bracket.report(2, 10, 1.0) is Verdict.STOP


def test_a_trial_that_fails_after_its_report_is_no_survivor():
    bracket = reported(Bracket(FOUR, "max"), 10, {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})
    bracket.fail(3)
    assert bracket.decide().survivors == (2, 1)


def test_a_failure_ahead_of_the_others_does_not_count_twice():
    bracket = Bracket(FOUR, "max")
    bracket.report(0, 70, 0.9)
    reported(bracket, 10, {1: 0.5, 2: 0.4, 3: 0.3})
    bracket.decide()
    bracket.fail(0)
    assert not bracket.complete
    bracket.report(1, 30, 0.1)
    assert bracket.decide().survivors == (1,)


def test_at_the_last_rung_all_that_are_left_finish():
    bracket = reported(Bracket(chain((3, 5)), "max"), 5, {0: 0.1, 1: 0.3, 2: 0.2})
    assert bracket.decide() == Decision(stage=0, survivors=(1, 2, 0), stopped=())
    assert bracket.over
    assert bracket.stage == 1
    assert bracket.verdict(1) is Verdict.STOP


def test_it_is_over_when_every_trial_has_failed():
    bracket = Bracket(FOUR, "max")
    for trial in range(4):
        bracket.fail(trial)
    assert bracket.decide() == Decision(stage=0, survivors=(), stopped=())
    assert bracket.over


def test_a_later_rung_that_nobody_is_left_for_is_decided_all_the_same():
    bracket = reported(Bracket(FOUR, "max"), 10, {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})
    for trial in bracket.decide().survivors:
        bracket.fail(trial)
    assert bracket.over
    assert bracket.complete
    assert bracket.decide() == Decision(stage=1, survivors=(), stopped=())
    assert not bracket.complete


def test_an_incomplete_rung_cannot_be_decided():
    bracket = reported(Bracket(FOUR, "max"), 10, {0: 0.1})
    with pytest.raises(InvalidInput, match="stage 0 cannot be decided: 3 of its trials have not reported"):
        bracket.decide()


def test_one_trial_too_many_is_refused():
    bracket = reported(Bracket(FOUR, "max"), 5, dict.fromkeys(range(4), 0.0))
    with pytest.raises(InvalidInput, match="must be one of the bracket's 4 trials, got 4"):
        bracket.report(4, 5, 0.0)


def test_a_mode_that_is_neither_max_nor_min_is_refused():
    with pytest.raises(InvalidInput, match="mode: must be one of max, min"):
        Bracket(FOUR, "best")


def test_a_plugin_may_choose_who_goes_on():
    asked = []

    def promote(stage, scores):
        asked.append((stage, dict(scores)))
        return [0, 3] if stage == 0 else None

    bracket = reported(Bracket(FOUR, "max", promote), 10, {3: 0.4, 0: 0.1, 1: 0.2, 2: 0.3})
    assert bracket.decide() == Decision(stage=0, survivors=(0, 3), stopped=(2, 1))
    reported(bracket, 30, {0: 1.0, 3: 2.0})
    assert bracket.decide().survivors == (3,)
    assert asked[0] == (0, {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4})


@pytest.mark.parametrize("answer", [[0], [0, 1, 2], [0, 0], [0, 17], []])
def test_a_plugin_that_promotes_wrongly_is_named(answer):
    bracket = reported(Bracket(FOUR, "max", lambda stage, scores: answer), 10, dict.fromkeys(range(4), 0.0))
    with pytest.raises(PluginConflict, match="rubberband_promote must answer 2 different trials"):
        bracket.decide()


def best_of(scores, count, mode):
    """An independent choice: repeatedly take the best one that is left."""
    left, chosen = dict(scores), []
    while len(chosen) < count:
        numbers = [t for t in sorted(left) if not math.isnan(left[t])] or sorted(left)
        best = numbers[0]
        for trial in numbers:
            if left[trial] > left[best] if mode == "max" else left[trial] < left[best]:
                best = trial
        chosen.append(best)
        del left[best]
    return tuple(chosen)


@given(
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    mode=st.sampled_from(["max", "min"]),
    seed=st.integers(0, 2**32),
)
def test_survivors_do_not_depend_on_the_order_of_reports(widths, mode, seed):
    stages = chain(*((n, 3) for n in sorted(widths, reverse=True)))
    rng = random.Random(seed)
    bracket, alive = Bracket(stages, mode), list(range(stages[0].trials))
    for number in range(len(stages)):
        scores = {t: rng.choice([0.0, 1.0, 2.0, math.inf, -math.inf, math.nan]) for t in alive}
        rng.shuffle(alive)
        for trial in alive:
            assert not bracket.complete
            bracket.report(trial, 3 * (number + 1), scores[trial])
        decision = bracket.decide()
        keep = stages[number + 1].trials if number + 1 < len(stages) else len(alive)
        assert decision.survivors == best_of(scores, keep, mode)
        assert set(decision.survivors) | set(decision.stopped) == set(alive)
        alive = list(decision.survivors)
    assert bracket.over
