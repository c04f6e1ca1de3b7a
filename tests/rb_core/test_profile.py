import pytest

from rb_core.errors import InvalidInput
from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile


def test_slots_are_ascending_however_they_were_given():
    profile = ScalingProfile(iteration_s={4: Latency(mean=1), 1: Latency(mean=3)})
    assert profile.slots == (1, 4)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"iteration_s": {}}, "iteration_s"),
        ({"iteration_s": {0: Latency(mean=1)}}, "iteration_s"),
        ({"iteration_s": {2: Latency(mean=0)}}, "iteration_s.2.mean"),
        ({"iteration_s": {1: Latency(mean=1)}, "trial_cv": -0.1}, "trial_cv"),
        ({"iteration_s": {1: Latency(mean=1)}, "spread_penalty": -0.1}, "spread_penalty"),
        ({"iteration_s": {1: Latency(mean=1)}, "sync_s": float("nan")}, "sync_s"),
        ({"iteration_s": {1: Latency(mean=1)}, "checkpoint_gib": -1}, "checkpoint_gib"),
    ],
)
def test_a_profile_refuses_by_name(given, key):
    with pytest.raises(InvalidInput) as caught:
        ScalingProfile(**given)
    assert caught.value.key == key


@pytest.mark.parametrize(
    "change",
    [
        {"iteration_s": {1: Latency(mean=1), 2: Latency(mean=1, std=0.1)}},
        {"start_s": Latency(mean=1, std=0.1)},
        {"save_s": Latency(mean=1, std=0.1)},
        {"trial_cv": 0.1},
    ],
)
def test_any_spread_makes_it_noisy(change):
    quiet = {"iteration_s": {1: Latency(mean=1)}, "start_s": Latency(mean=1), "sync_s": 3.0, "spread_penalty": 0.1}
    assert not ScalingProfile(**quiet).noisy
    assert ScalingProfile(**quiet | change).noisy
