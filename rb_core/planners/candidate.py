"""A plan under construction, stage by stage, in the expected-value model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rb_core.dag import Step, next_step
from rb_core.expectation import ExpectedModel, Progress, expected
from rb_core.hardware import InstanceType
from rb_core.placement import divides, nodes_for
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A complete plan with its expected time and cost in the model.

    Attributes:
        allocations: of all stages of all chains, one after another.
        jct_s: expected completion time.
        cost_usd: expected bill.
        order: how several chains share the time.
    """

    allocations: tuple[StageAllocation, ...]
    jct_s: float
    cost_usd: float
    order: ChainOrder = ChainOrder.SEQUENTIAL

    @property
    def nodes(self) -> int:
        """The most nodes of any stage: what a chain needs of the node limit."""
        return max(allocation.nodes for allocation in self.allocations)

    def plan(self, problem: Problem) -> AllocationPlan:
        """The plan, chain by chain."""
        left = iter(self.allocations)
        chains = tuple(tuple(next(left) for _ in chain) for chain in problem.experiment.chains)
        return AllocationPlan(chains=chains, order=self.order)

    def modelled(self, model: ExpectedModel) -> Candidate:
        """The same plan with the model's figures, where a search has approximated them."""
        jct_s, cost_usd = model.evaluate(self.plan(model.problem))
        return replace(self, jct_s=jct_s, cost_usd=cost_usd)

    def sampled(self, problem: Problem) -> Candidate:
        """The same plan with the means of whole jobs; without noise and policies the model's figures are these."""
        if not problem.noisy and not problem.policies.early_release:
            return self
        jct_s, cost_usd = expected(problem, self.plan(problem))
        return replace(self, jct_s=jct_s, cost_usd=cost_usd)


def beside(chains: Sequence[Candidate]) -> Candidate:
    """Candidates of one chain each, in the chains' order, as one whose chains run side by side."""
    return Candidate(
        allocations=tuple(allocation for chain in chains for allocation in chain.allocations),
        jct_s=max(chain.jct_s for chain in chains),
        cost_usd=sum(chain.cost_usd for chain in chains),
        order=ChainOrder.PARALLEL,
    )


def stages_in_order(problem: Problem) -> tuple[tuple[int, int], ...]:
    """(chain, stage) of all stages, chain after chain."""
    return tuple((c, k) for c, chain in enumerate(problem.experiment.chains) for k in range(len(chain)))


def widths(problem: Problem, instance_type: InstanceType, nodes: int) -> Iterator[int]:
    """Slots per trial with which at least one trial fits on so many nodes, ascending."""
    for width in problem.profile.slots:
        if divides(width, instance_type.slots) and width <= nodes * instance_type.slots:
            yield width


def useful_nodes(problem: Problem, instance_type: InstanceType, trials: int | None = None) -> int:
    """The most nodes that so many trials could occupy at once; 0 where no width fits the type's nodes.

    Where nodes are taken away it is one more: with a node to spare an interrupted trial goes on at once.

    Args:
        problem: the problem.
        instance_type: of the nodes.
        trials: None is as many as any stage has.
    """
    if trials is None:
        trials = max(stage.trials for chain in problem.experiment.chains for stage in chain)
    needed = (
        nodes_for(trials, slots_per_trial=width, node_slots=instance_type.slots)
        for width in problem.profile.slots
        if divides(width, instance_type.slots)
    )
    most = max(needed, default=0)
    return most + 1 if most and instance_type.interruptions_per_hour > 0 else most


def least_nodes(problem: Problem) -> int | None:
    """The fewest nodes that hold a trial; None when `max_nodes` of no type do."""
    needed = (
        nodes_for(1, slots_per_trial=width, node_slots=instance_type.slots)
        for instance_type in problem.cloud.instance_types
        for width in widths(problem, instance_type, problem.cloud.max_nodes)
    )
    return min(needed, default=None)


Trail = Sequence[tuple[Step, Progress]]
"""Steps that are settled, each with the job's progress after it."""

Choice = Callable[[int, Step | None, Progress], StageAllocation | None]
"""Given the position of a stage, the step before it and the job's progress: its allocation, or None if none fits."""


def build(
    model: ExpectedModel,
    choose: Choice,
    *,
    prefix: Trail = (),
) -> tuple[Candidate, Trail] | None:
    """Choose the stages one by one.

    Args:
        model: the expected-value model.
        choose: what to allocate.
        prefix: the first steps, already settled.

    Returns:
        The candidate and its trail; None when a stage had no allocation.
    """
    problem = model.problem
    trail = list(prefix)
    for position, (chain, stage) in enumerate(stages_in_order(problem)):
        if position < len(prefix):
            continue
        before, progress = trail[-1] if trail else (None, Progress())
        allocation = choose(position, before, progress)
        if allocation is None:
            return None
        step = next_step(problem, chain, stage, allocation, before)
        trail.append((step, model.advance(progress, step)))
    return completed(model, trail), trail


def completed(model: ExpectedModel, trail: Trail) -> Candidate:
    """The candidate whose every step has been settled."""
    end = model.finish(trail[-1][1])
    allocations = tuple(
        StageAllocation(
            instance_type=step.instance_type.name,
            nodes=step.placement.nodes,
            slots_per_trial=step.placement.slots_per_trial,
        )
        for step, _ in trail
    )
    return Candidate(allocations=allocations, jct_s=end.barrier_s, cost_usd=end.cost_usd)


def soonest(
    model: ExpectedModel,
    position: int,
    instance_type: InstanceType,
    nodes: int,
    before: Step | None,
    progress: Progress,
) -> StageAllocation | None:
    """The allocation whose width ends the stage soonest on so many nodes (ties: the smaller width)."""
    problem = model.problem
    chain, stage = stages_in_order(problem)[position]
    best: tuple[float, StageAllocation] | None = None
    for width in widths(problem, instance_type, nodes):
        allocation = StageAllocation(instance_type=instance_type.name, nodes=nodes, slots_per_trial=width)
        end_s = model.stage_end_s(progress, next_step(problem, chain, stage, allocation, before))
        if best is None or end_s < best[0] - 1e-9:
            best = (end_s, allocation)
    return best[1] if best else None
