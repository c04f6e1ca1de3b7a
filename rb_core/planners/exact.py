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
to its front are kept as well, all are sampled as whole jobs under common random numbers, and the front is that of the
sampled means.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from rb_core.expectation import ExpectedModel, expected
from rb_core.plan import AllocationPlan, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.chains import side_by_side
from rb_core.planners.fastest import no_room
from rb_core.planners.objective import Limit
from rb_core.planners.search import Search, StageTables, undominated_plans

_NEAR = 0.02
"""With noise, plans up to this much dearer than the modelled front are sampled too."""

_FINALISTS = 8
"""With noise, at most so many plans that keep the limit are compared by their sampled cost or time."""


class Exact:
    """The cheapest (or fastest) of all plans under the expected-value model."""

    name = "exact"

    def plan(self, problem: Problem, rng: np.random.Generator) -> AllocationPlan:
        """The best plan there is for the objective. Raises as `Planner.plan`.

        With noise the plans are tried best first, under common random numbers, until one keeps the limit; those that
        the model puts close behind it are then compared with it by their sampled figures.
        """
        model = ExpectedModel(problem)
        limit = Limit(model, rng)
        candidates = modelled_front(model)
        best = limit.first(candidates)
        if best is None:
            raise limit.infeasible(self.name, candidates)
        if problem.noisy:
            quantity = 1 if limit.by_time else 0
            close = limit.preference(best)[0] * (1.0 + _NEAR)
            behind = sorted((c for c in candidates if limit.preference(c)[0] <= close), key=limit.preference)
            keeping = [best, *(c for c in behind[:_FINALISTS] if c != best and limit.meets(c))]
            best = min(keeping, key=lambda c: expected(limit.problem, c.plan(limit.problem))[quantity])
        return best.plan(limit.problem)


def front(model: ExpectedModel) -> list[Candidate]:
    """All undominated plans with their expected times and costs, the fastest first.

    Raises:
        NoFeasiblePlan: not even one trial fits on any type.
    """
    candidates = modelled_front(model)
    if model.problem.noisy:
        candidates = [_sampled(model.problem, candidate) for candidate in candidates]
    return undominated_plans(candidates)


def modelled_front(model: ExpectedModel) -> list[Candidate]:
    """The front in the expected-value model; with noise also what is near it. Raises as `front`."""
    tables = StageTables(model)
    near = _NEAR if model.problem.noisy else 0.0
    together = side_by_side(model) if len(model.problem.experiment.chains) > 1 else []
    # What is known saves the search most of its labels: few plans in a row are not beaten by one side by side.
    known = undominated_plans([*Search(tables, quick=True).run(), *together])
    candidates = list(dict.fromkeys([*known, *together, *Search(tables, known=known, near=near).run()]))
    if not candidates:
        raise no_room(model.problem)
    return candidates if near else undominated_plans(candidates)


def _sampled(problem: Problem, candidate: Candidate) -> Candidate:
    jct_s, cost_usd = expected(problem, candidate.plan(problem))
    return dataclasses.replace(candidate, jct_s=jct_s, cost_usd=cost_usd)
