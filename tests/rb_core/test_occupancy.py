import numpy as np
import pytest

from rb_core.occupancy import last_end, occupied, ready_places, spared
from rb_core.placement import Placement


@pytest.mark.parametrize(
    ("width", "places"), [(1, [0.0, 0.0, 5.0, 5.0]), (2, [0.0, 5.0, 7.0, 9.0]), (4, [5.0, 9.0]), (6, [7.0])]
)
def test_places_are_usable_with_their_nodes(width, places):
    nodes = np.array([[0.0], [5.0], [7.0], [9.0], [9.5]])
    placement = Placement(trials=4, slots_per_trial=width, node_slots=2, nodes=5)
    assert ready_places(nodes, placement).ravel().tolist() == places


def test_list_scheduling_on_places_of_any_age():
    places = np.array([[0.0], [0.0], [25.0]])
    durations = np.array([[10.0], [20.0], [5.0], [30.0]])
    # 10 and 20 start at 0; 5 takes the first place at 10, not the late one; 30 follows at 15.
    assert last_end(places, durations, 4).tolist() == [45.0]


def test_rounds_of_equal_trials_end_as_if_followed_one_by_one():
    rng = np.random.default_rng(7)
    skipped = 0
    for _ in range(300):
        places, trials = int(rng.integers(1, 6)), int(rng.integers(1, 60))
        ready = np.sort(rng.random((min(places, trials), 1)) * rng.choice([0, 1, 5]), axis=0)
        duration = float(rng.choice([0.3, 1.0, 2.5]))
        # Places are never idle, so the starts are the earliest of all times at which any place could start one.
        started = sorted(at + j * duration for at in ready[:, 0] for j in range(trials))[trials - 1]
        assert last_end(ready, np.full((1, 1), duration), trials) == pytest.approx(started + duration)
        skipped += trials > 3 * places
    assert skipped > 100


def given_back(ready, durations, kept, **placement):
    """(rows, times) of the nodes that can go, of one sample."""
    nodes = np.array([[float(at)] for at in ready])
    placed = Placement(trials=len(durations), nodes=len(ready), **placement)
    places = ready_places(nodes, placed)
    occupancy = occupied(places, np.array([[float(d)] for d in durations]), len(durations))
    rows, times = spared(nodes, places, occupancy, placed, kept)
    return rows[:, 0].tolist(), times[:, 0].tolist()


def test_a_node_can_go_once_its_last_trial_has_ended():
    # Two trials on each node: the second node's are the shorter ones.
    assert given_back([0, 0], [9, 8, 3, 5], 0, slots_per_trial=1, node_slots=2) == ([1, 0], [5, 9])
    assert given_back([0, 0], [9, 8, 3, 5], 1, slots_per_trial=1, node_slots=2) == ([1], [5])


def test_no_node_goes_while_trials_queue():
    # The third trial starts at 2 where the first has ended; the second node is idle from 3.
    assert given_back([0, 0], [2, 3, 4], 0, slots_per_trial=1, node_slots=1) == ([1, 0], [3, 6])


def test_a_node_without_a_trial_can_go_as_soon_as_it_is_usable_and_nothing_is_left_to_start():
    # The first node takes all trials, the last one at 4, before the second is usable.
    assert given_back([0, 7], [2, 2, 2], 0, slots_per_trial=1, node_slots=1) == ([0, 1], [6, 7])
    assert given_back([0, 5], [2, 2, 2], 0, slots_per_trial=1, node_slots=1) == ([1, 0], [5, 6])
    assert given_back([0, 3], [2, 1.5, 9], 0, slots_per_trial=1, node_slots=1) == ([0, 1], [3.5, 12])


def test_an_idle_node_waits_for_one_that_is_still_starting_if_one_is_kept():
    # The first could go at 6, but then the next stage would have to wait for the second.
    assert given_back([0, 7], [2, 2, 2], 1, slots_per_trial=1, node_slots=1) == ([0], [7])
    # Both of the first idle at 7, when one node is one too many: the one that was usable first goes.
    assert given_back([0, 1, 7], [4, 2, 2], 2, slots_per_trial=1, node_slots=1) == ([0], [7])


def test_nodes_left_over_beside_spanning_trials_go_before_those_that_fall_idle_at_the_same_time():
    # Trials span two nodes; the third one starts at 4, when the second has ended too. The fifth node never has any.
    rows, times = given_back([0, 0, 0, 0, 0], [4, 4, 4], 0, slots_per_trial=2, node_slots=1)
    assert rows == [4, 2, 3, 0, 1]
    assert times == [4, 4, 4, 8, 8]


def test_a_group_that_never_trains_does_not_hold_its_nodes():
    # Both trials run on the first two nodes; the third waited for the fourth in vain.
    rows, times = given_back([0, 0, 0, 50], [3, 3], 1, slots_per_trial=2, node_slots=1)
    assert (rows, times) == ([2, 0, 1], [3, 6, 50])
