"""The runs of the study, by name: workload, shape, and which repetition."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import Objective
from rb_core.spec import ExperimentSpec
from rb_core.target import Target
from rb_plugins.profiling import MOST_CONFIGS
from rb_plugins.tuning import Measuring, Tuning

from .shapes import SHAPES, TYPE, Shape
from .workloads import WORKLOADS, Workload

COMMAND = "PYTHONPATH=examples/evaluation python -m fidelity"
"""Repeats single rows."""

REPETITIONS = 3

LAST_OWN = REPETITIONS - 1
"""In this repetition every run has a profile of its own; in the others one serves all runs of a workload."""

SHARED = ("halving-2", "halving-3", "halving-4", "one-stage", "hyperband", "late-nodes")
WIDE = ("widening", "wide")

USD_PER_HOUR = 3.6
"""Of a node: a tenth of a cent each second."""

GRANULARITY_S = 0.01
"""Runs are short, so bills are, too: rounded up to whole seconds, two bills in three would be equal."""

PROFILING_S = 10.0
"""Budget of a profile, for each number of slots."""

FAR = 1e6
"""A deadline that says nothing: plans are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One real run.

    Attributes:
        workload: its name.
        shape: its name.
        repetition: of this workload in this shape.
    """

    workload: str
    shape: str
    repetition: int

    @property
    def name(self) -> str:
        """How the command names it."""
        return f"{self.workload}/{self.shape}/{self.repetition}"

    @property
    def command(self) -> str:
        """Profiles and runs it again."""
        return f"{COMMAND} {self.name}"

    @property
    def seed(self) -> int:
        """Of its configurations, its training and its forecast: different for every case."""
        return self._first_seed + list(SHAPES).index(self.shape)

    @property
    def _first_seed(self) -> int:
        """Of this workload in this repetition."""
        return 1000 * (1 + self.repetition) + 100 * list(WORKLOADS).index(self.workload)

    @property
    def own_profile(self) -> bool:
        """Whether it is profiled on its own first configurations, right before it begins."""
        return self.repetition == LAST_OWN

    @property
    def group(self) -> str:
        """Runs of one group share a profile."""
        return self.name if self.own_profile else f"{self.workload}/{self.repetition}"

    @property
    def of_workload(self) -> Workload:
        """What is trained."""
        return WORKLOADS[self.workload]

    @property
    def of_shape(self) -> Shape:
        """What is run."""
        return SHAPES[self.shape]

    @property
    def tuning(self) -> Tuning:
        """The run, as it is asked for."""
        shape, workload = self.of_shape, self.of_workload
        return Tuning(
            target=Target.parse(workload.target),
            space=workload.space,
            experiment=shape.experiment,
            cloud=Cloud(
                provider="local",
                instance_types=(InstanceType(name=TYPE, slots=1, usd_per_hour=USD_PER_HOUR),),
                max_nodes=2,
                launch_s=Latency(mean=shape.launch_s),
                init_s=Latency(mean=shape.init_s),
                billing=Billing(granularity_s=GRANULARITY_S, minimum_s=0.0),
            ),
            objective=Objective(deadline_s=FAR),
            name=self.name.replace("/", "-"),
            metric=workload.metric,
            seed=self.seed,
            profile=Measuring(slots=workload.slots, budget_s=PROFILING_S * len(workload.slots)),
            launcher=workload.launcher,
            replan=False,
        )

    @property
    def profiled(self) -> Tuning:
        """What is profiled for it: itself, or the same function with other configurations and no shape at all."""
        if self.own_profile:
            return self.tuning
        others = ExperimentSpec.from_stages([(MOST_CONFIGS, 8)])
        return replace(self.tuning, experiment=others, seed=self._first_seed + 99, name=self.group.replace("/", "-"))


def cases() -> list[Case]:
    """All, in the order in which they are run: those of a group together, workloads in turn."""
    return [
        Case(workload=workload, shape=shape, repetition=repetition)
        for repetition in range(REPETITIONS)
        for workload in WORKLOADS
        for shape in (*SHARED, *(WIDE if max(WORKLOADS[workload].slots) > 1 else ()))
    ]


def quick_cases() -> list[Case]:
    """A dozen of them, of every workload, with both kinds of profile."""
    shapes = {
        "convolution": ("halving-3", "halving-4", "late-nodes", "widening"),
        "perceptron": ("halving-4", "one-stage", "hyperband"),
        "relaxation": ("halving-2", "one-stage", "late-nodes"),
    }
    few = [Case(workload=name, shape=shape, repetition=0) for name, own in shapes.items() for shape in own]
    return [
        *few,
        *(Case(workload=name, shape="one-stage", repetition=LAST_OWN) for name in ("perceptron", "relaxation")),
    ]


def case_of(name: str) -> Case:
    """The case of that name. Raises `ValueError` where there is none."""
    workload, shape, repetition = (*name.split("/"), "", "")[:3]
    if workload in WORKLOADS and shape in SHAPES and repetition.isdigit() and name.count("/") == 2:
        return Case(workload=workload, shape=shape, repetition=int(repetition))
    raise ValueError(
        f"no run {name!r}; a name is WORKLOAD/SHAPE/REPETITION with {', '.join(WORKLOADS)} and {', '.join(SHAPES)}"
    )
