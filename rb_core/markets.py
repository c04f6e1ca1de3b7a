"""In which market nodes are asked for while a run is on spot and has a deadline.

In the manner of Uniform Progress (Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI
2024): on spot while the run is at or ahead of the schedule that ends at its deadline; on demand, to stay there, when
the time that is left is only just enough to end on demand alone, with what the change takes; on demand as well while
spot has no nodes to give and the run is behind its schedule; and back to spot only where it could be tried and left
once more. What is done of a uniform schedule there is here the expected end of the plan that is followed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rb_core.check import non_negative
from rb_core.hardware import Cloud, InstanceType, Market, MarketPolicy
from rb_core.plan import Problem

MARGIN = 0.02
"""Share of the time left that a new plan leaves free for what no plan foresees: how what is left of a stage is rounded,
and what is still to be learned of the times that it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is known when a market is chosen; all in seconds from now.

    Attributes:
        left_s: until the deadline.
        spot_s: until the run is expected to end on spot, losses included.
        on_demand_s: until it is expected to end on demand alone, the change not included.
        changeover_s: what it takes to have nodes of the other market and to go on there.
    """

    left_s: float
    spot_s: float
    on_demand_s: float
    changeover_s: float

    def __post_init__(self) -> None:
        non_negative("changeover_s", self.changeover_s)

    @property
    def slack_s(self) -> float:
        """What may still be lost before the change has to be made."""
        return self.left_s - self.on_demand_s - self.changeover_s


def market_for(outlook: Outlook, before: Market, *, refused: bool = False) -> Market:
    """The market to ask for nodes in from now on.

    Args:
        outlook: what is known.
        before: the market so far.
        refused: whether spot has just had no node to give.
    """
    if outlook.slack_s <= 0:
        return Market.ON_DEMAND
    if before is Market.ON_DEMAND:
        # There and back again.
        worth = outlook.spot_s + 2 * outlook.changeover_s <= outlook.left_s
        ready = outlook.slack_s >= 2 * outlook.changeover_s
        return Market.SPOT if worth and ready and not refused else Market.ON_DEMAND
    if refused and outlook.spot_s > outlook.left_s:
        return Market.ON_DEMAND
    return Market.SPOT


def changeover_s(problem: Problem) -> float:
    """What it takes to go on with a trial on a node that is asked for now: its start, the trial's, and a save."""
    cloud, profile = problem.cloud, problem.profile
    return cloud.launch_s.mean + cloud.init_s.mean + profile.start_s.mean + profile.save_s.mean


def latest_on_spot_s(problem: Problem, left_s: float) -> float:
    """When the run should be expected to end on spot, so that it can still be taken off it in time.

    Args:
        problem: profile and cloud.
        left_s: time until the deadline.
    """
    return left_s * (1.0 - MARGIN) - changeover_s(problem)


def with_way_off_s(problem: Problem, spot_s: float) -> float:
    """The earliest deadline for which `spot_s` is not later than `latest_on_spot_s`."""
    return (spot_s + changeover_s(problem)) / (1.0 - MARGIN)


def falls_back(problem: Problem) -> bool:
    """Whether what would be late on spot is bought on demand."""
    return problem.cloud.market is MarketPolicy.SPOT_THEN_ON_DEMAND and any(
        kind.market is Market.SPOT for kind in problem.cloud.instance_types
    )


def on_demand(problem: Problem) -> Problem:
    """The problem with all of its types bought on demand. Raises as `bought`."""
    kinds = tuple(kind.on_demand() for kind in problem.cloud.instance_types)
    cloud = replace(problem.cloud, instance_types=kinds, market=MarketPolicy.ON_DEMAND)
    return replace(problem, cloud=cloud)


def check_markets(cloud: Cloud) -> None:
    """Raise `InvalidInput` when a type may have to be bought on demand and its price there is not known."""
    if cloud.market is MarketPolicy.SPOT_THEN_ON_DEMAND:
        for instance_type in cloud.instance_types:
            instance_type.on_demand()


def bought(instance_type: InstanceType, market: Market) -> InstanceType:
    """A type as it is bought in a market; on spot it is what it is planned with.

    Raises:
        InvalidInput: its price on demand is not known.
    """
    return instance_type.on_demand() if market is Market.ON_DEMAND else instance_type
