"""What `rb-tune plan --explain` answers: a forecast taken apart."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from rb_core.breakdown import bound_table, parts_tables, standing_lines
from rb_core.explain import Explanation, Parts, explain
from rb_core.plan import Problem
from rb_core.planners.candidate import Candidate
from rb_core.report import Table
from rb_core.standing import Standing, standing
from rb_plugins.forecast import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A plan's time and cost taken apart, and its place among all plans.

    Attributes:
        problem: what was planned.
        explanation: where the time and the money go.
        standing: its neighbours on the front, and the limits that bind.
    """

    problem: Problem
    explanation: Explanation
    standing: Standing

    def tables(self) -> list[Table]:
        """The tables for people."""
        return [*parts_tables(self.explanation), bound_table(self.explanation)]

    def lines(self) -> list[str]:
        """The sentences for people."""
        return standing_lines(self.problem, self.standing)

    def table(self) -> dict[str, Any]:
        """What stands under the key `explain` of `rb-tune plan --json`."""
        told, place = self.explanation, self.standing
        return {
            "jct_s": _parts(told.time_s),
            "cost_usd": _parts(told.cost_usd),
            "stages": [
                {
                    "chain": stage.chain,
                    "stage": stage.stage,
                    "decisive": stage.decisive,
                    "jct_s": _parts(stage.time_s),
                    "cost_usd": _parts(stage.cost_usd),
                }
                for stage in told.stages
            ],
            "above_lower_bound_usd": told.cost_usd.total - told.lower_bound_usd,
            "scaling_usd": told.scaling_usd,
            "objective_binds": place.objective_binds,
            "nodes": place.nodes,
            "max_nodes": place.max_nodes,
            "max_nodes_binds": place.nodes_bind,
            "with_more_nodes": None
            if place.relieved is None
            else {"max_nodes": place.relieved_nodes, "jct_s": place.relieved[0], "cost_usd": place.relieved[1]},
            "cheaper": self._neighbour(place.cheaper),
            "faster": self._neighbour(place.faster),
        }

    def _neighbour(self, candidate: Candidate | None) -> dict[str, Any] | None:
        if candidate is None:
            return None
        return {
            "jct_s": candidate.jct_s,
            "cost_usd": candidate.cost_usd,
            "added_s": candidate.jct_s - self.standing.jct_s,
            "added_usd": candidate.cost_usd - self.standing.cost_usd,
            **candidate.plan(self.problem).record(self.problem.experiment),
        }


def explained(planned: Forecast) -> Explained:
    """Take a forecast apart."""
    return Explained(
        problem=planned.problem,
        explanation=explain(planned.problem, planned.plan),
        standing=standing(planned.problem, planned.plan),
    )


def _parts(parts: Parts) -> dict[str, float]:
    return {**dataclasses.asdict(parts), "total": parts.total}
