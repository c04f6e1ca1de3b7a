"""A baseline of the table's own: every chain on a static cluster of its own, side by side."""

from __future__ import annotations

from known import deadline_of

from rb_core.errors import NoFeasiblePlan
from rb_core.expectation import ExpectedModel
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.chains import Share, best_splits
from rb_core.planners.search import undominated_plans
from rb_core.planners.static import static_candidates
from rb_core.spec import ExperimentSpec


class StaticBeside:
    """The cheapest such plan under a deadline; each cluster is given back when its chain ends.

    With one chain it is the static plan. The planner `static` runs several chains one after another on one cluster,
    which takes long; this one has what the exact planner has, but for changing a cluster's size.
    """

    name = "static-beside"

    def plan(self, problem: Problem) -> AllocationPlan:
        """Split the node limit between the chains.

        Args:
            problem: without noise, with its deadline in seconds.

        Raises:
            NoFeasiblePlan: none is in time.
        """
        shares = [_shares(problem, chain) for chain in range(len(problem.experiment.chains))]
        limit_s = deadline_of(problem) + 1e-6
        splits = best_splits(shares, problem.cloud.max_nodes)
        in_time = [plan for plan in splits if plan.jct_s <= limit_s]
        if not in_time:
            raise NoFeasiblePlan("no static clusters side by side are in time", limit="deadline_s")
        return min(in_time, key=lambda plan: (plan.cost_usd, plan.jct_s)).plan(problem)


def _shares(problem: Problem, chain: int) -> list[Share]:
    """What a chain can do on each number of nodes."""
    alone = Problem(
        experiment=ExperimentSpec(chains=(problem.experiment.chains[chain],)),
        profile=problem.profile,
        cloud=problem.cloud,
    )
    candidates = static_candidates(ExpectedModel(alone))
    return [
        Share(nodes=nodes, plans=tuple(plans))
        for nodes in range(1, problem.cloud.max_nodes + 1)
        if (plans := undominated_plans([c for c in candidates if c.nodes == nodes]))
    ]
