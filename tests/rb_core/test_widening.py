import pytest

from rb_core.hardware import Latency
from rb_core.profile import ScalingProfile
from rb_core.widening import EFFICIENCY, widened


def profile(**means):
    return ScalingProfile(
        iteration_s={int(width[1:]): Latency(mean=mean, std=mean / 10) for width, mean in means.items()}
    )


def test_one_doubling_is_taken_on_trust():
    got = widened(profile(w1=10.0), most=8, node_slots=8)
    assert got.slots == (1, 2)
    assert got.iteration_s[2].mean == pytest.approx(10.0 / (2 * EFFICIENCY))
    assert got.iteration_s[2].std == pytest.approx(got.iteration_s[2].mean / 10)


def test_what_was_measured_stays_as_it_is():
    measured = profile(w1=10.0, w2=9.0)
    got = widened(measured, most=4, node_slots=4)
    assert {width: got.iteration_s[width] for width in (1, 2)} == measured.iteration_s


def test_a_doubling_that_did_less_makes_the_next_one_do_no_more():
    # 10 s to 8 s by twice the slots: 0.625 of twice the work.
    assert widened(profile(w1=10.0, w2=8.0), most=4, node_slots=4).iteration_s[4].mean == pytest.approx(8.0 / 1.25)


def test_a_doubling_that_did_more_is_not_counted_on():
    got = widened(profile(w1=10.0, w2=5.0), most=4, node_slots=4)
    assert got.iteration_s[4].mean == pytest.approx(5.0 / (2 * EFFICIENCY))


def test_a_width_that_made_it_slower_makes_the_next_one_slower_still():
    assert widened(profile(w1=10.0, w2=12.0), most=4, node_slots=4).iteration_s[4].mean > 12.0


@pytest.mark.parametrize(
    ("measured", "most", "node_slots", "offered"),
    [
        ({"w1": 1.0}, 1, 8, (1,)),
        ({"w1": 1.0}, 3, 8, (1, 2)),
        ({"w2": 1.0}, 3, 8, (2, 3)),
        ({"w2": 1.0}, 4, 2, (2, 4)),
        ({"w2": 1.0}, 3, 2, (2,)),
        ({"w4": 1.0}, 8, 3, (4, 6)),
        ({"w4": 1.0}, 2, 8, (4,)),
    ],
)
def test_only_a_width_that_a_trial_may_have_and_a_node_can_hold_is_offered(measured, most, node_slots, offered):
    assert widened(profile(**measured), most=most, node_slots=node_slots).slots == offered


def test_less_than_a_doubling_is_reckoned_in_parts_of_one():
    got = widened(profile(w2=9.0), most=3, node_slots=3)
    assert 9.0 / 1.5 < got.iteration_s[3].mean < 9.0
    twice = widened(ScalingProfile(iteration_s=got.iteration_s), most=3, node_slots=3)
    assert twice.slots == (2, 3)
