import pytest

from rb_core.engine.places import Place, Places
from rb_core.placement import Placement
from rb_core.ports import Slot


def places(width, node_slots, *nodes, trials=99):
    made = Places(Placement(trials=trials, slots_per_trial=width, node_slots=node_slots, nodes=max(len(nodes), 9)))
    for node in nodes:
        made.add(node, slots(node, node_slots))
    return made


def slots(node, count):
    return tuple(Slot(node=node, index=index) for index in range(count))


def taken(made):
    return list(iter(made.take, None))


def test_a_node_is_cut_into_places_and_what_is_left_over_idles():
    one, two = taken(places(2, 5, "n0"))
    assert one == Place(nodes=("n0",), slots=slots("n0", 5)[:2])
    assert two == Place(nodes=("n0",), slots=slots("n0", 5)[2:4])


def test_places_are_taken_in_the_order_in_which_they_came_free():
    made = places(1, 1, "n0", "n1")
    first = made.take()
    made.add("n2", slots("n2", 1))
    made.give_back(first)
    assert [place.nodes for place in taken(made)] == [("n1",), ("n2",), ("n0",)]


def test_a_wide_trial_takes_whole_nodes_in_the_order_of_their_arrival():
    made = places(4, 2, "n0")
    assert made.take() is None
    made.add("n2", slots("n2", 2))
    made.add("n1", slots("n1", 2))
    assert made.take() == Place(nodes=("n0", "n2"), slots=slots("n0", 2) + slots("n2", 2))
    assert made.take() is None


def test_a_lost_node_takes_its_free_places_with_it():
    made = places(1, 2, "n0", "n1")
    made.lose("n0")
    assert {place.nodes for place in taken(made)} == {("n1",)}


def test_the_place_of_a_trial_on_a_lost_node_does_not_come_back():
    made = places(1, 1, "n0", "n1")
    first = made.take()
    made.lose("n0")
    made.give_back(first)
    assert [place.nodes for place in taken(made)] == [("n1",)]


@pytest.mark.parametrize("running", [True, False])
def test_what_is_left_of_a_broken_group_is_grouped_anew(running):
    made = places(4, 2, "n0", "n1")
    place = made.take() if running else None
    made.lose("n0")
    if place is not None:
        made.give_back(place)
    made.add("n2", slots("n2", 2))
    assert made.take() == Place(nodes=("n1", "n2"), slots=slots("n1", 2) + slots("n2", 2))


def test_a_lost_node_that_waits_for_its_group_is_not_waited_with():
    made = places(4, 2, "n0")
    made.lose("n0")
    made.add("n1", slots("n1", 2))
    assert made.take() is None
