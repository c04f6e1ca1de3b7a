"""Plan files: an allocation for every stage, read against its problem and written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.placement import Placement
from rb_core.plan import AllocationPlan, ChainOrder, Problem, StageAllocation
from rb_core.spec import Stage
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table

_ANSWERS = ("expected", "simulated", "baselines", "confidence", "explain", "objective")
"""What `rb-tune plan` tells about a plan beside it; read back as it is."""

_ANOTHER = "the plan seems to be for another problem; rb-tune plan --json makes one for this"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTable:
    """An allocation; what is said of its stage must be what the problem says."""

    instance_type: str
    nodes: int
    slots_per_trial: int
    trials: int | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> StageAllocation:
        """The allocation alone."""
        return StageAllocation(instance_type=self.instance_type, nodes=self.nodes, slots_per_trial=self.slots_per_trial)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTable:
    """One of several chains."""

    stages: tuple[StageTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTable:
    """The object that `rb-tune plan --json` prints; `stages` or `chains` is needed and the rest is not."""

    stages: tuple[StageTable, ...] | None = None
    chains: tuple[ChainTable, ...] | None = None
    order: ChainOrder = ChainOrder.SEQUENTIAL
    planner: str = ""
    expected: Any = None
    simulated: Any = None
    baselines: Any = None
    confidence: Any = None
    explain: Any = None
    objective: Any = None
    cost_lower_bound_usd: float = 0.0
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if (self.stages is None) == (self.chains is None):
            raise InvalidInput("stages", "is required, or chains of stages in its place; not both")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan, and what its file says of its making.

    Attributes:
        plan: the plan.
        planner: who made it; may be empty.
        fingerprint: of the problem that it was made for; may be empty.
    """

    plan: AllocationPlan
    planner: str
    fingerprint: str


def load_plan(path: Path, problem: Problem) -> PlanFile:
    """The plan in a file, once it is known to fit the problem.

    Raises:
        InvalidInput: the file is wrong or does not fit, with the file's name as a note.
    """
    with naming(path):
        return read_plan(read_table(path, nulls_under=_ANSWERS), problem)


def read_plan(data: object, problem: Problem) -> PlanFile:
    """The plan that plain values stand for.

    Raises:
        InvalidInput: it is none, or does not fit the problem.
    """
    table = shaped(PlanTable, data, free=_ANSWERS)
    chains = tuple(chain.stages for chain in table.chains) if table.chains else (table.stages or (),)
    plan = AllocationPlan(chains=tuple(tuple(stage.value() for stage in chain) for chain in chains), order=table.order)
    try:
        plan.check_fits(problem.experiment)
    except InvalidInput as error:
        raise InvalidInput(error.key, f"{error.problem}; {_ANOTHER}") from None
    for c, chain in enumerate(chains):
        prefix = f"chains[{c}].stages" if table.chains else "stages"
        for k, stage in enumerate(chain):
            try:
                _check_stage(stage, problem.experiment.chains[c][k], problem)
            except InvalidInput as error:
                raise error.under(f"{prefix}[{k}]") from None
    return PlanFile(plan=plan, planner=table.planner, fingerprint=table.fingerprint)


def _check_stage(allocation: StageTable, stage: Stage, problem: Problem) -> None:
    for key, given, wanted in (
        ("trials", allocation.trials, stage.trials),
        ("iterations", allocation.iterations, stage.iterations),
    ):
        if given is not None and given != wanted:
            raise InvalidInput(key, f"must be {wanted} as in the problem's stage, got {given}; {_ANOTHER}")
    slots = problem.cloud.instance_type(allocation.instance_type).slots
    if allocation.nodes > problem.cloud.max_nodes:
        raise InvalidInput(
            "nodes", f"must be at most the cloud's max_nodes of {problem.cloud.max_nodes}, got {allocation.nodes}"
        )
    if allocation.slots_per_trial not in problem.profile.slots:
        known = ", ".join(str(number) for number in problem.profile.slots)
        raise InvalidInput(
            "slots_per_trial", f"must be one that the profile lists ({known}), got {allocation.slots_per_trial}"
        )
    Placement(
        trials=stage.trials,
        slots_per_trial=allocation.slots_per_trial,
        node_slots=slots,
        nodes=allocation.nodes,
    )
