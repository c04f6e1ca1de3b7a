"""The exact planner: every plan that is not beaten in both time and cost, by label-setting over the stages.

A label is a partial plan at a barrier (see `labels`; `search` walks the stages, `growth` takes labels through one).
From stage to stage, labels are first trimmed: node after node is given back, newest first as the model has it, and at
each number of kept nodes superfluous labels are dropped. A trimmed label goes on with just what it keeps; an
untouched one also with more nodes of its type; one that has given back everything with any number of nodes of another
type.

Exactness, without noise. (1) All plans are reached: a plan is a sequence of (type, nodes, width), nodes are kept and
released in the model's order, and the only choices left out are slower widths under PER_INSTANCE where all nodes are
usable at the stage's end. There a slower width only delays every later event: no node is held for less time and no
barrier comes earlier. (Where nodes are still starting it can pay, by putting off the next request, and is tried;
under PER_FUNCTION, where a slower width can be the cheaper one, every width is an option of its own.) (2) No dropped
label was needed: that is the argument of `labels`. (3) What is reported is priced by `bill`, node by node, and not by
the bounds used on the way. More nodes than any later stage could occupy are not tried, since they would be held and
paid for without changing any time. (4) A quick search that keeps few labels comes first; its plans are complete and
rightly priced, so a label that cannot become better than one of them, even if all that is left took the least time
and money possible, is dropped at once.

Several chains are searched as one, which is exact for chains one after another, and side by side (see `chains`); the
front is that of both.

With noise the same search runs over expectations (see `durations`), which approximates; so the plans that come close
to its front are kept as well, as are all static ones, and all get the model's own figures. They are then sampled as
whole jobs under common random numbers, and the front is that of the sampled means.

The search knows nothing of early release: it puts every node's end at a barrier, so that its cost is what a plan costs
without the policy, and its times are right. Where the policy is on, all costs that leave this module have it: a budget
is checked on whole jobs with it, the plans close behind the best are compared with it, noise or not, and the front is
that of these figures. A plan that is only good because of early release can be missed if it is further than
that from the best.
"""

from __future__ import annotations

import numpy as np

from rb_core.expectation import ExpectedModel
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.chains import side_by_side
from rb_core.planners.fastest import fastest, no_room
from rb_core.planners.greedy import shrunk
from rb_core.planners.objective import Limit
from rb_core.planners.search import StageTables, all_plans, undominated_plans
from rb_core.planners.static import static_candidates

_NEAR = 0.02
"""With noise, plans up to this much dearer than the modelled front are sampled too."""

_RIVALS = 16
"""So many plans at most are sampled to find one that is better than the model's best after all."""


class Exact:
    """The cheapest (or fastest) of all plans under the expected-value model."""

    name = "exact"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The best plan there is for the objective. Raises as `Planner.plan`.

        With noise the plans are tried best first, under common random numbers, until one keeps the limit; those that
        the model puts close behind it are then compared with it by their sampled figures. So it is with early release.
        Under a deadline the best is also shrunk as `Greedy` does it, step by step, where the search has not looked.
        """
        model = ExpectedModel(problem)
        limit = Limit(model, rng)
        candidates = modelled_front(model)
        best = limit.first(candidates)
        if best is None:
            raise limit.infeasible(self.name, candidates)
        if problem.noisy or problem.policies.early_release:
            rivals = [c for c in candidates if c != best and limit.likely(c) and _close_behind(best, c, limit)]
            rivals = sorted(rivals, key=limit.preference)[:_RIVALS]
            keeping = [best, *(c for c in rivals if limit.meets(c))]
            if limit.by_time and problem.noisy and (less := shrunk(model, best, limit.meets)):
                keeping.append(less)
            best = min(keeping, key=lambda c: limit.preference(limit.sampled(c)))
        return best.plan(limit.problem)


def _close_behind(best: Candidate, other: Candidate, limit: Limit) -> bool:
    at_best, at_other = limit.preference(best), limit.preference(other)
    return at_best <= at_other and at_other[0] <= at_best[0] * (1.0 + _NEAR)


def front(model: ExpectedModel) -> list[Candidate]:
    """All undominated plans with their expected times and costs, the fastest first.

    Raises:
        NoFeasiblePlan: not even one trial fits on any type.
    """
    return undominated_plans([candidate.sampled(model.problem) for candidate in modelled_front(model)])


def modelled_front(model: ExpectedModel) -> list[Candidate]:
    """The front in the expected-value model; with noise also what is near it, in no order. Raises as `front`."""
    near = _NEAR if model.problem.noisy else 0.0
    together = side_by_side(model) if len(model.problem.experiment.chains) > 1 else []
    # Few plans in a row are not beaten by one side by side.
    candidates = [*together, *all_plans(StageTables(model), known=together, near=near)]
    if not candidates:
        raise no_room(model.problem)
    if not near:
        return undominated_plans(candidates)
    # The search approximates, worst where nodes differ much in when they are ready. No deadline that can be kept may be
    # refused for it, and no plan be dearer than a cluster that never changes.
    candidates = [fastest(model), *static_candidates(model), *candidates]
    return list(dict.fromkeys(candidate.modelled(model) for candidate in candidates))
