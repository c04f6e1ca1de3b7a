"""A price book, a planner and an observer, in one file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rb_core.errors import NoFeasiblePlan
from rb_core.events import Event, StageEnded
from rb_core.hardware import InstanceType, Offering, PriceBook
from rb_core.placement import divides
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_plugins import hookimpl


class Widest:
    """Every stage on all nodes of the first instance type, each trial as wide as the profile and the nodes allow."""

    name = "widest"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The one plan of this planner, whatever the objective."""
        node, nodes = problem.cloud.instance_types[0], problem.cloud.max_nodes
        widths = [w for w in problem.profile.slots if w <= nodes * node.slots and divides(w, node.slots)]
        if not widths:
            raise NoFeasiblePlan("no trial fits on the nodes; raise max_nodes", limit="max_nodes")
        stage = StageAllocation(instance_type=node.name, nodes=nodes, slots_per_trial=max(widths))
        return AllocationPlan(chains=tuple(tuple(stage for _ in chain) for chain in problem.experiment.chains))


def cluster_prices(*, region: str = "", instance_types: Sequence[str] = ()) -> PriceBook:
    """What the department charges for its machines, until further notice, so without a date."""
    machines = {"quad": (4, 2.0), "octo": (8, 3.5)}
    return PriceBook(
        name="cluster",
        dated="",
        source="the department's price list",
        offerings=tuple(
            Offering(
                instance_type=InstanceType(name=name, slots=slots, usd_per_hour=usd),
                region="basement",
                accelerator="A100",
            )
            for name, (slots, usd) in machines.items()
        ),
    )


@hookimpl
def rubberband_register_planners():
    """The planner `widest`."""
    return {Widest.name: Widest}


@hookimpl
def rubberband_register_price_books():
    """The price book `cluster`."""
    return {"cluster": cluster_prices}


@hookimpl
def rubberband_event(event: Event) -> None:
    """One line for every stage that ends, in the file that SAMPLE_STAGES names."""
    path = os.environ.get("SAMPLE_STAGES")
    if path and isinstance(event, StageEnded):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"stage {event.stage} ended after {event.t_s:.1f} s\n")
