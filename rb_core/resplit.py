"""How the slots of nodes that stay are split anew among the trials that are left."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rb_core.check import positive_int
from rb_core.errors import InvalidInput


def places(slots_per_trial: int, node_slots: Sequence[int]) -> int:
    """How many trials of a width run at once.

    A trial that fits on a single node is laid on one; a wider one takes slots wherever there are any.

    Args:
        slots_per_trial: the width.
        node_slots: slots of each node; nodes may differ.
    """
    width = positive_int("slots_per_trial", slots_per_trial)
    if width > max(node_slots, default=0):
        return sum(node_slots) // width
    return sum(slots // width for slots in node_slots)


def widest(trials: int, *, node_slots: Sequence[int], widths: Collection[int]) -> int:
    """The widest of some widths with which all trials run at once.

    Where none lets them all run at once it is the one with which most do, of equals the widest: the rest wait for
    their turn.

    Args:
        trials: how many are left.
        node_slots: slots of each node; nodes may differ.
        widths: numbers of slots that a trial can use.

    Raises:
        InvalidInput: no width fits on the nodes.
    """
    positive_int("trials", trials)
    fitting = [(min(trials, count), width) for width in widths if (count := places(width, node_slots)) > 0]
    if not fitting:
        wanted = min(widths, default=1)
        raise InvalidInput(
            "slots_per_trial",
            f"a trial needs at least {wanted} slot(s), and the cluster has {sum(node_slots)} on {len(node_slots)} "
            "node(s); add nodes, or let a trial do with fewer slots",
        )
    return max(fitting)[1]
