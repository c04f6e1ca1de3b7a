"""How much can be tried by a deadline within a budget: the largest experiment of a family that fits both.

A family gives an experiment for every size: successive halving for every number of trials n, Hyperband for every R,
which sets both how long its longest trials run and how many there are. (With R given there is but one Hyperband; what
a smaller purse buys is a smaller R, not a part of its brackets.)

Sizes are tried in steps of a factor until one does not fit, then the interval is halved: some twenty exact fronts at
most, whatever the answer. That supposes that whatever is larger takes more: every stage has as many trials or more.
The one exception are sizes at which a chain gets a stage more, whose barrier may also be of use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from rb_core.errors import InvalidInput, NoFeasiblePlan
from rb_core.expectation import ExpectedModel, expected
from rb_core.plan import Objective, Problem
from rb_core.planners.candidate import Candidate
from rb_core.planners.exact import modelled_front
from rb_core.planners.objective import SAMPLES, Limit, loosened
from rb_core.simulate import simulate
from rb_core.spec import MAX_TRIALS, ExperimentSpec

_TRIED = 16
"""With noise, so many plans are sampled at most to find one that keeps both limits."""


class Kind(StrEnum):
    """Which family of experiments is sized."""

    SUCCESSIVE_HALVING = "successive_halving"
    """Sizes are numbers of trials."""
    HYPERBAND = "hyperband"
    """Sizes are R."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Experiments by their size.

    Attributes:
        letter: what a size is called: n or R.
        make: the experiment of a size.
        most: the largest size.
        factor: of the steps in which sizes are tried first, at least 2.
    """

    letter: str
    make: Callable[[int], ExperimentSpec]
    most: int
    factor: int


def family(kind: Kind, *, R: int, eta: int, r: int = 1, incremental: bool = False) -> Family:  # noqa: N803
    """The experiments that are asked for.

    Args:
        kind: which.
        R: iterations in total of a trial that is never stopped; of Hyperband, the most that is wanted.
        eta: reduction factor.
        r: iterations of the first rung, of successive halving.
        incremental: whether its rungs add up, see `ExperimentSpec.successive_halving`.

    Raises:
        InvalidInput: as the experiments do.
    """
    if kind is Kind.HYPERBAND:
        if r != 1:
            raise InvalidInput("r", f"must be left out with Hyperband, whose brackets begin at many r; got {r}")
        ExperimentSpec.hyperband(R=R, eta=eta)
        return Family(letter="R", make=lambda size: ExperimentSpec.hyperband(R=size, eta=eta), most=R, factor=eta)

    def halving(size: int) -> ExperimentSpec:
        return ExperimentSpec.successive_halving(
            n=size, r=r, R=R, eta=eta, rungs="incremental" if incremental else "cumulative"
        )

    halving(1)
    return Family(letter="n", make=halving, most=MAX_TRIALS, factor=eta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """What there is to spend.

    Attributes:
        deadline_s: of time.
        budget_usd: of money.
        confidence: wanted probability of keeping both; None constrains the means.
    """

    deadline_s: float
    budget_usd: float
    confidence: float | None = None

    def __post_init__(self) -> None:
        self.by_time()
        self.by_cost()

    def by_time(self) -> Objective:
        """The deadline alone."""
        return Objective(deadline_s=self.deadline_s, confidence=self.confidence)

    def by_cost(self) -> Objective:
        """The budget alone."""
        return Objective(budget_usd=self.budget_usd, confidence=self.confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One size that was tried; expected figures in seconds and usd.

    Attributes:
        size: n or R.
        experiment: of that size.
        in_time: the cheapest plan that keeps the deadline; None when none does.
        in_budget: the fastest plan that keeps the budget; None when none does.
        both: the cheapest plan found that keeps both; None when it does not fit.
    """

    size: int
    experiment: ExperimentSpec
    in_time: Candidate | None
    in_budget: Candidate | None
    both: Candidate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """All sizes that were tried.

    Attributes:
        family: of what.
        purse: what there is to spend.
        tried: by ascending size.
        largest: the largest of them that fits.
    """

    family: Family
    purse: Purse
    tried: tuple[Size, ...]
    largest: Size


def size_up(problem: Problem, experiments: Family, purse: Purse, rng: np.random.Generator) -> Sizes:
    """Find the largest experiment that fits.

    Args:
        problem: profile and cloud; its experiment and objective are of no consequence.
        experiments: to choose from.
        purse: both limits.
        rng: of the samples; every size meets the same.

    Raises:
        NoFeasiblePlan: not even the smallest fits.
    """
    seed = int(rng.integers(2**63))
    tried: dict[int, Size] = {}

    def fits(size: int) -> bool:
        if size not in tried:
            tried[size] = _try(problem, size, experiments.make(size), purse, seed)
        return tried[size].both is not None

    good, bad = 0, 1
    while fits(bad):
        good, bad = bad, min(bad * experiments.factor, experiments.most)
        if bad == good:
            break
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    if not good:
        raise _nothing_fits(tried[1], experiments, purse)
    in_order = tuple(tried[size] for size in sorted(tried))
    return Sizes(family=experiments, purse=purse, tried=in_order, largest=tried[good])


def _try(problem: Problem, size: int, experiment: ExperimentSpec, purse: Purse, seed: int) -> Size:
    timed = dataclasses.replace(problem, experiment=experiment, objective=purse.by_time())
    model = ExpectedModel(timed)
    plans = modelled_front(model)
    by_time = Limit(model, np.random.default_rng(seed))
    by_cost = Limit(ExpectedModel(dataclasses.replace(timed, objective=purse.by_cost())), np.random.default_rng(seed))
    in_time, in_budget = by_time.first(plans), by_cost.first(plans)
    both = None
    if in_time is not None and in_budget is not None:
        likely = [plan for plan in plans if by_time.likely(plan) and by_cost.likely(plan)]
        closest = sorted(likely, key=lambda p: max(p.jct_s / purse.deadline_s, p.cost_usd / purse.budget_usd))
        tried = [in_time, in_budget, *closest[:_TRIED]]
        both = next((plan for plan in tried if _keeps_both(timed, plan, purse, seed)), None)
    return Size(
        size=size,
        experiment=experiment,
        in_time=in_time and in_time.sampled(timed),
        in_budget=in_budget and in_budget.sampled(timed),
        both=both and both.sampled(timed),
    )


def _keeps_both(problem: Problem, candidate: Candidate, purse: Purse, seed: int) -> bool:
    deadline_s, budget_usd = loosened(purse.deadline_s), loosened(purse.budget_usd)
    plan = candidate.plan(problem)
    if purse.confidence is None or not problem.noisy:
        jct_s, cost_usd = expected(problem, plan)
        return jct_s <= deadline_s and cost_usd <= budget_usd
    estimate = simulate(problem, plan, samples=SAMPLES, rng=np.random.default_rng(seed))
    kept = (estimate.jct_s <= deadline_s) & (estimate.cost_usd <= budget_usd)
    return float(kept.mean()) >= purse.confidence


def _nothing_fits(size: Size, experiments: Family, purse: Purse) -> NoFeasiblePlan:
    what = f"not even {experiments.letter} = {size.size} fits"
    if size.in_time is None:
        return NoFeasiblePlan(
            f"{what}: no plan keeps the deadline of {purse.deadline_s:.1f} s; raise the deadline or max_nodes",
            limit="deadline_s",
        )
    figures = {"jct_s": size.in_time.jct_s, "cost_usd": size.in_time.cost_usd}
    return NoFeasiblePlan(
        f"{what}: the cheapest plan by the deadline costs {size.in_time.cost_usd:.6g} usd but the budget is "
        f"{purse.budget_usd:.6g} usd; raise the budget or the deadline, or lower R",
        limit="budget_usd",
        nearest=figures,
    )
