import pytest

from rb_core.errors import UnusableProfile
from rb_core.measurement import Measurement
from rb_core.observed import observed


def start(trial, slots, *iterations_s, start_s=2.0, save_s=0.5):
    return Measurement(
        slots=slots,
        config=trial,
        from_iteration=0,
        start_s=start_s,
        restore_s=0.0,
        iterations_s=iterations_s,
        save_s=save_s,
        checkpoint_bytes=0,
    )


def means(measurements):
    profile, _ = observed(measurements)
    return {slots: latency.mean for slots, latency in profile.iteration_s.items()}


def test_one_width_gives_a_profile_of_that_width():
    profile, fit = observed([start(0, 1, 14.0, 10.0, 10.0), start(1, 1, 16.0, 12.0, 12.0)], sync_s=3.0)
    assert profile.iteration_s[1].mean == pytest.approx(11.0)
    assert profile.start_s.mean == pytest.approx(2.0 + 4.0)
    assert (profile.save_s.mean, profile.sync_s, fit) == (0.5, 3.0, None)
    assert profile.trial_cv > 0


def test_widths_are_compared_on_the_trials_that_ran_on_both():
    # Trial 1 is slow and was stopped: it says nothing of what two slots gain.
    seen = [start(0, 1, 10.0, 10.0), start(1, 1, 90.0, 90.0), start(0, 2, 6.0, 6.0)]
    assert means(seen) == {1: pytest.approx(10.0), 2: pytest.approx(6.0)}


def test_a_width_that_none_of_the_others_ran_on_is_left_out():
    seen = [start(0, 1, 10.0, 10.0, 10.0), start(1, 2, 6.0, 6.0)]
    assert means(seen) == {1: pytest.approx(10.0)}


def test_starts_that_ran_a_single_iteration_say_nothing_of_iterations():
    assert means([start(0, 1, 99.0), start(0, 1, 14.0, 10.0)]) == {1: pytest.approx(10.0)}
    with pytest.raises(UnusableProfile, match="raise the first rung"):
        observed([start(0, 1, 99.0)])
    with pytest.raises(UnusableProfile):
        observed([])
