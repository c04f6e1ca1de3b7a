import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rb_core.errors import InvalidInput
from rb_core.hardware import Cloud, InstanceType, Latency
from rb_core.learning import LAG_PRIOR, LEAST_STEP_CV, LEAST_TRIAL_CV, OUTLIER, PRIOR, Learning
from rb_core.profile import ScalingProfile

PROFILE = ScalingProfile(
    iteration_s={1: Latency(mean=10.0, std=1.0), 4: Latency(mean=4.0, std=0.2)},
    start_s=Latency(mean=5.0, std=0.5),
    save_s=Latency(mean=1.0),
    trial_cv=0.05,
)
CLOUD = Cloud(
    instance_types=(InstanceType(name="a", slots=4, usd_per_hour=3.6),),
    launch_s=Latency(mean=30.0, std=3.0),
    init_s=Latency(mean=60.0),
)


def learning(profile=PROFILE):
    return Learning(profile, CLOUD)


def iterated(learned, trial, ratio, *, iterations=20, slots=1, slow=1.0):
    expected_s = PROFILE.iteration_s[slots].mean * slow * iterations
    learned.iterated(trial=trial, slots_per_trial=slots, slow=slow, iterations=iterations, seconds=ratio * expected_s)


LATENCIES = {
    "started": lambda learned: learned.profile.start_s,
    "saved": lambda learned: learned.profile.save_s,
    "node_running": lambda learned: learned.cloud.launch_s,
    "node_ready": lambda learned: learned.cloud.init_s,
}

reports = st.lists(
    st.tuples(
        st.integers(0, 5), st.floats(0.0, 20.0), st.integers(1, 50), st.sampled_from([1, 4]), st.floats(0.25, 4.0)
    ),
    min_size=1,
    max_size=20,
)


def of_reports(reports):
    learned = learning()
    for trial, ratio, iterations, slots, slow in reports:
        iterated(learned, trial, ratio, iterations=iterations, slots=slots, slow=slow)
    return learned


def test_nothing_measured_is_the_profile_and_the_cloud():
    learned = learning()
    assert (learned.profile, learned.cloud, learned.drift) == (PROFILE, CLOUD, 1.0)


def test_one_trial_is_the_posterior_mean_by_hand():
    learned = learning()
    iterated(learned, 0, 2.0, iterations=1)
    # The profile weighs 1 / 0.3^2 = 11.111, the trial 1 / (0.1^2 + 0.5^2) = 3.846.
    assert learned.drift == pytest.approx((11.1111 + 2 * 3.84615) / (11.1111 + 3.84615), rel=1e-5)
    assert (PRIOR, LEAST_TRIAL_CV, LEAST_STEP_CV) == (0.3, 0.1, 0.5)


def test_one_slow_step_moves_little_and_a_stage_of_slow_trials_decides():
    single, stage = learning(), learning()
    iterated(single, 0, 2.0, iterations=1)
    for trial in range(16):
        iterated(stage, trial, 2.0)
    assert single.drift < 1.3
    assert stage.drift == pytest.approx(2.0, rel=0.02)


def test_trials_that_differ_among_themselves_tell_less():
    alike, various = learning(), learning(dataclasses.replace(PROFILE, trial_cv=0.5))
    for learned in (alike, various):
        iterated(learned, 0, 2.0)
    assert 1.0 < various.drift < alike.drift < 2.0


def test_many_iterations_of_one_trial_are_still_one_trial():
    one, two = learning(), learning()
    iterated(one, 0, 2.0, iterations=10**6)
    for trial in range(2):
        iterated(two, trial, 2.0, iterations=10**6)
    assert one.drift == pytest.approx(1 + 1 / (1 + (LEAST_TRIAL_CV / PRIOR) ** 2), rel=1e-3)
    assert two.drift > one.drift


def test_all_widths_are_scaled_with_their_spread():
    learned = learning()
    for trial in range(8):
        iterated(learned, trial, 1.5, slots=4, slow=2.0)
    factor = learned.drift
    assert factor > 1.4
    for slots, before in PROFILE.iteration_s.items():
        now = learned.profile.iteration_s[slots]
        assert (now.mean, now.std) == pytest.approx((before.mean * factor, before.std * factor))
    assert learned.profile == dataclasses.replace(PROFILE, iteration_s=learned.profile.iteration_s)


@given(reports)
def test_iterations_end_up_between_the_profile_and_what_was_measured(reports):
    ratios = [ratio for _, ratio, *_ in reports]
    assert min(1.0, *ratios) - 1e-9 <= of_reports(reports).drift <= max(1.0, *ratios) + 1e-9


@given(reports, st.randoms(use_true_random=False))
def test_the_order_of_iterations_does_not_matter(reports, random):
    shuffled = random.sample(reports, len(reports))
    assert of_reports(reports).profile == of_reports(shuffled).profile


@given(reports, st.floats(1e3, 1e12))
def test_one_stuck_step_counts_no_more_than_a_few_typical_ones(reports, ratio):
    alone = [(trial, min(ratio, 20.0), *rest) for trial, ratio, *rest in reports]
    stuck, much_longer = (99, ratio, 1, 1, 1.0), (99, 1e15, 1, 1, 1.0)
    drift = of_reports([*alone, stuck]).drift
    assert drift <= OUTLIER * max(1.0, *(ratio for _, ratio, *_ in alone))
    assert drift == pytest.approx(of_reports([*alone, much_longer]).drift)


@pytest.mark.parametrize("name", LATENCIES)
@given(measured=st.lists(st.floats(0.0, 600.0), min_size=1, max_size=20), random=st.randoms(use_true_random=False))
def test_a_latency_ends_up_between_its_expectation_and_what_was_measured(name, measured, random):
    before = LATENCIES[name](learning())
    learned, shuffled = learning(), learning()
    for seconds in measured:
        getattr(learned, name)(seconds)
    for seconds in random.sample(measured, len(measured)):
        getattr(shuffled, name)(seconds)
    now = LATENCIES[name](learned)
    assert min(before.mean, *measured) - 1e-9 <= now.mean <= max(before.mean, *measured) + 1e-9
    assert now.std * before.mean == pytest.approx(now.mean * before.std)
    assert now == LATENCIES[name](shuffled)


@pytest.mark.parametrize("name", LATENCIES)
def test_each_latency_is_its_own(name):
    learned = learning()
    for _ in range(30):
        getattr(learned, name)(200.0)
    assert LATENCIES[name](learned).mean == pytest.approx(200.0, rel=0.1)
    for other in LATENCIES.keys() - {name}:
        assert LATENCIES[other](learned) == LATENCIES[other](learning())
    assert learned.drift == 1.0


@pytest.mark.parametrize("name", LATENCIES)
def test_one_latency_that_is_far_off_is_bounded(name):
    before = LATENCIES[name](learning()).mean
    learned = learning()
    getattr(learned, name)(1e9)
    assert before < LATENCIES[name](learned).mean < before * 1.6


def test_what_was_to_take_no_time_is_learned_in_seconds():
    learned = Learning(PROFILE, dataclasses.replace(CLOUD, launch_s=Latency(mean=0.0)))
    learned.node_running(10.0)
    assert 0.0 < learned.cloud.launch_s.mean < 5.0
    for _ in range(99):
        learned.node_running(10.0)
    learned.node_running(1e9)
    assert learned.cloud.launch_s.mean == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize(
    "wrong",
    [{"slots_per_trial": 2}, {"slow": 0.0}, {"iterations": 0}, {"seconds": -1.0}, {"seconds": float("nan")}],
)
def test_what_cannot_have_been_measured_is_refused(wrong):
    learned = learning()
    report = {"trial": 0, "slots_per_trial": 1, "slow": 1.0, "iterations": 1, "seconds": 1.0}
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        learned.iterated(**{**report, **wrong})
    assert learned.drift == 1.0
    with pytest.raises(InvalidInput, match="seconds"):
        learned.started(-1.0)


def test_what_is_known_of_the_trials_that_go_on_is_theirs():
    learned = learning(dataclasses.replace(PROFILE, trial_cv=0.3))
    for trial in range(8):
        for _ in range(5):
            iterated(learned, trial, 2.5 if trial < 2 else 1.5)
    assert learned.drift == pytest.approx(1.6, abs=0.1)
    assert learned.factor_of((0, 1)) == pytest.approx(2.5, rel=0.03)
    assert learned.factor_of((6, 7)) == pytest.approx(1.5, rel=0.03)
    assert learned.factor_of((0, 7)) == pytest.approx(2.0, rel=0.03)
    slow = learned.profile_of((0, 1))
    assert slow.iteration_s[4].mean == pytest.approx(4.0 * 2.5, rel=0.03)
    assert slow.start_s == learned.profile.start_s
    # These two are known to be alike; one fast and one slow are known to differ.
    assert slow.trial_cv < 0.1 < 0.3 < learned.profile_of((0, 7)).trial_cv


def test_one_iteration_tells_little_of_a_trial_and_many_tell_most():
    known = []
    for iterations in (1, 5, 100):
        learned = learning()
        for trial in range(8):
            iterated(learned, trial, 1.0)
        iterated(learned, 9, 2.0, iterations=iterations)
        known.append((learned.factor_of((9,)) - learned.drift) / (2.0 - learned.drift))
    # By hand: 0.01 n / (0.01 n + 0.25).
    assert known == pytest.approx([0.03846, 0.16667, 0.8], abs=1e-4)


def test_of_trials_that_were_never_measured_no_more_is_known_than_of_all():
    learned = learning()
    assert learned.profile_of((0, 1)) == PROFILE
    for trial in range(8):
        iterated(learned, trial, 2.0)
    assert learned.factor_of((8, 9)) == learned.factor_of(()) == learned.drift
    assert learned.profile_of(()) == learned.profile
    assert learned.profile_of((8, 9)).trial_cv == pytest.approx(LEAST_TRIAL_CV)


def test_where_the_profile_knows_of_no_difference_between_trials_none_is_made_up():
    learned = learning(dataclasses.replace(PROFILE, trial_cv=0.0))
    iterated(learned, 0, 2.0)
    iterated(learned, 1, 1.0)
    assert learned.profile_of((0, 1)).trial_cv == 0.0


def test_one_width_tells_nothing_of_the_others():
    learned = learning()
    for trial in range(16):
        iterated(learned, trial, 1.5, slots=4)
    assert learned.lag == 0.0
    assert learned.factor_of((), 1) == learned.factor_of((), 4) == pytest.approx(1.5, rel=0.02)


def test_what_wider_trials_lose_is_told_from_what_all_of_them_take():
    """Perfect scaling was believed, and 4 slots are only twice as fast as one; all take 1.2 times as long."""
    believed = ScalingProfile(iteration_s={slots: Latency(mean=16.0 / slots) for slots in (1, 2, 4, 8)})
    learned = learning(believed)
    for trial in range(16):
        learned.iterated(trial=trial, slots_per_trial=1, slow=1.0, iterations=20, seconds=1.2 * 20 * 16.0)
    for trial in range(8):
        learned.iterated(trial=trial, slots_per_trial=4, slow=1.0, iterations=20, seconds=1.2 * 20 * 8.0)
    assert learned.lag == pytest.approx(0.5, rel=0.05)
    now = learned.profile_of(range(8)).iteration_s
    assert [now[slots].mean for slots in (1, 4)] == pytest.approx([1.2 * 16.0, 1.2 * 8.0], rel=0.05)
    assert now[8].mean == pytest.approx(1.2 * 16.0 / 8**0.5, rel=0.07)


def test_a_trial_that_is_slow_by_itself_says_little_of_its_width():
    """That the one trial on 4 slots is slow may be its own; the same one on 1 slot tells."""
    profile = dataclasses.replace(PROFILE, trial_cv=0.3)
    other, same = learning(profile), learning(profile)
    for learned, trial in ((other, 1), (same, 0)):
        iterated(learned, 0, 1.0)
        iterated(learned, trial, 1.4, slots=4)
    assert 0.0 < other.lag < 0.5 * same.lag


def test_the_lag_is_the_posterior_mean_by_hand():
    """Of one trial on two widths only the difference tells: log(1.2) over log(4), with the variance of its iterations.

    That is 2 * 0.5**2 / 100 / log(4)**2 = 0.0026017 beside the prior's 0.15**2.
    """
    learned = learning()
    iterated(learned, 0, 1.0, iterations=100)
    iterated(learned, 0, 1.2, iterations=100, slots=4)
    slope, variance = math.log(1.2) / math.log(4), 2 * LEAST_STEP_CV**2 / 100 / math.log(4) ** 2
    assert variance == pytest.approx(0.0026017, rel=1e-4)
    assert learned.lag == pytest.approx(slope / (1 + variance / LAG_PRIOR**2))


@given(reports)
def test_all_widths_are_finite_whatever_was_measured(reports):
    learned = of_reports(reports)
    assert all(latency.mean >= 0 and math.isfinite(latency.mean) for latency in learned.profile.iteration_s.values())
