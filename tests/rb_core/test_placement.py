import pytest
from model_reference import fits

from rb_core.errors import InvalidInput
from rb_core.placement import Placement, divides, nodes_for


def place(trials, width, slots, nodes):
    return Placement(trials=trials, slots_per_trial=width, node_slots=slots, nodes=nodes)


@pytest.mark.parametrize(
    ("trials", "width", "slots", "nodes", "places", "at_once"),
    [
        (8, 1, 2, 3, 6, 6),
        (4, 1, 2, 3, 6, 4),
        (9, 3, 4, 2, 2, 2),
        (9, 2, 5, 2, 4, 4),
        (9, 4, 2, 5, 2, 2),
        (1, 8, 2, 4, 1, 1),
    ],
)
def test_places_and_concurrency(trials, width, slots, nodes, places, at_once):
    placement = place(trials, width, slots, nodes)
    assert (placement.places, placement.concurrency) == (places, at_once)
    assert placement.spans == (width > slots)


def test_what_can_be_laid_is_what_the_model_says():
    for width in range(1, 9):
        for slots in range(1, 6):
            for nodes in range(1, 5):
                if fits(width, slots, nodes):
                    assert divides(width, slots)
                    assert place(3, width, slots, nodes).concurrency >= 1
                else:
                    with pytest.raises(InvalidInput):
                        place(3, width, slots, nodes)


def test_errors_say_what_would_do():
    with pytest.raises(InvalidInput, match=r"slots_per_trial: must be at most a node's 2 slots or a multiple .* got 3"):
        place(1, 3, 2, 4)
    with pytest.raises(InvalidInput, match=r"nodes: must be at least 2 to hold one trial of 4 slots .* got 1"):
        place(1, 4, 2, 1)
    with pytest.raises(InvalidInput, match="trials"):
        place(0, 1, 1, 1)


@pytest.mark.parametrize(
    ("trials", "width", "slots", "nodes"), [(8, 1, 2, 4), (5, 1, 2, 3), (1, 1, 8, 1), (3, 2, 5, 2), (3, 8, 2, 12)]
)
def test_on_so_many_nodes_all_trials_run_at_once(trials, width, slots, nodes):
    assert nodes_for(trials, slots_per_trial=width, node_slots=slots) == nodes
    assert place(trials, width, slots, nodes).places >= trials
    assert place(trials, width, slots, 99).nodes_for_all == nodes
    if trials > 1:
        assert place(trials, width, slots, nodes - 1).places < trials
