import pytest
from hypothesis import given
from hypothesis import strategies as st

from rb_core.errors import InvalidInput
from rb_core.placement import Placement, divides
from rb_core.resplit import places, widest

NODES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("trials", "nodes", "widths", "expected"),
    [
        (4, (2, 2), (1, 2, 4), 1),
        (2, (2, 2), (1, 2, 4), 2),
        (1, (2, 2), (1, 2, 4), 4),
        (1, (2, 2), (1,), 1),
        (9, (2, 2), (1, 2), 1),
        (3, (4, 4), (1, 2, 4), 2),
        (2, (8, 4), (1, 2, 4, 8), 4),
        (2, (4, 4), (2, 3), 3),
        (5, (4, 4), (2, 3), 2),
    ],
)
def test_all_that_are_left_run_at_once_as_wide_as_they_can(trials, nodes, widths, expected):
    assert widest(trials, node_slots=nodes, widths=widths) == expected


def test_where_they_cannot_all_run_at_once_as_many_as_possible_do():
    # Of width 3 two run at once, of width 2 four: more of them, so narrower ones.
    assert widest(9, node_slots=(4, 4), widths=(2, 3)) == 2


def test_a_width_that_does_not_fit_is_refused_with_what_there_is():
    with pytest.raises(InvalidInput, match=r"at least 4 slot\(s\), and the cluster has 3 on 2 node\(s\)"):
        widest(1, node_slots=(2, 1), widths=(4, 8))


@given(trials=st.integers(1, 30), nodes=NODES, widths=st.sets(st.integers(1, 12), min_size=1))
def test_no_wider_width_would_let_as_many_run(trials, nodes, widths):
    if all(places(width, nodes) == 0 for width in widths):
        return
    chosen = widest(trials, node_slots=nodes, widths=widths)
    at_once = min(trials, places(chosen, nodes))
    for width in widths:
        assert min(trials, places(width, nodes)) < at_once or (
            width <= chosen and min(trials, places(width, nodes)) == at_once
        )


@given(width=st.integers(1, 16), slots=st.integers(1, 8), nodes=st.integers(1, 6))
def test_equal_nodes_hold_what_the_model_says(width, slots, nodes):
    if not divides(width, slots) or width > slots * nodes:
        return
    model = Placement(trials=100, slots_per_trial=width, node_slots=slots, nodes=nodes)
    assert places(width, (slots,) * nodes) == model.places
