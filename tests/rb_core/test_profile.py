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


def test_a_trial_is_slower_over_several_nodes_and_on_a_slower_type():
    profile = ScalingProfile(
        iteration_s={2: Latency(mean=4, std=1), 4: Latency(mean=3)},
        start_s=Latency(mean=5),
        save_s=Latency(mean=1),
        spread_penalty=0.5,
    )
    assert profile.slowdown(spans=False, speed=2) == 0.5
    assert profile.slowdown(spans=True, speed=0.5) == 3
    assert profile.trial_s(10, slots=2, node_slots=2, speed=2) == 5 + 10 * 4 / 2 + 1
    assert profile.trial_s(10, slots=4, node_slots=2, speed=2) == 5 + 1.5 * 10 * 3 / 2 + 1


def test_equal_profiles_have_one_hash():
    profile, same = (
        ScalingProfile(iteration_s={slots: Latency(mean=8 / slots) for slots in order}) for order in ((1, 2), (2, 1))
    )
    assert profile == same
    assert len({profile, same, ScalingProfile(iteration_s=profile.iteration_s, trial_cv=0.1)}) == 2
