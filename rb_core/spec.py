"""What is to be tuned: stages of trials, in one chain or several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from rb_core.check import positive_int
from rb_core.errors import InvalidInput

MAX_TRIALS = 1_000_000
"""The largest number of trials of one stage: what the simulator can still hold in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`trials` that each run `iterations` more iterations and then wait for each other at a barrier."""

    trials: int
    iterations: int

    def __post_init__(self) -> None:
        positive_int("trials", self.trials)
        positive_int("iterations", self.iterations)
        if self.trials > MAX_TRIALS:
            raise InvalidInput("trials", f"must be at most {MAX_TRIALS}, got {self.trials}")


Chain = tuple[Stage, ...]
"""Stages that follow each other, with trials that never become more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSpec:
    """An experiment: one chain of stages (successive halving) or several (Hyperband's brackets).

    Attributes:
        chains: at least one chain of at least one stage; within a chain the trials never increase.
    """

    chains: tuple[Chain, ...]

    def __post_init__(self) -> None:
        if not self.chains:
            raise InvalidInput("chains", "must hold at least one chain of stages")
        for number, chain in enumerate(self.chains):
            key = "stages" if len(self.chains) == 1 else f"chains[{number}].stages"
            if not chain:
                raise InvalidInput(key, "must hold at least one stage")
            for k in range(1, len(chain)):
                if chain[k].trials > chain[k - 1].trials:
                    raise InvalidInput(
                        f"{key}[{k}].trials",
                        f"must not exceed the {chain[k - 1].trials} trials of the stage before, got {chain[k].trials}",
                    )

    @property
    def trials(self) -> int:
        """How many trials start in all."""
        return sum(chain[0].trials for chain in self.chains)

    @property
    def trial_stages(self) -> int:
        """How often a trial runs a stage: the trials of each stage, summed over all stages."""
        return sum(stage.trials for chain in self.chains for stage in chain)

    @property
    def trial_iterations(self) -> int:
        """Iterations summed over all trials and stages."""
        return sum(stage.trials * stage.iterations for chain in self.chains for stage in chain)

    @property
    def from_nothing(self) -> ExperimentSpec:
        """The same for trials that cannot be resumed, and begin every stage with their first iteration."""
        chains = []
        for chain in self.chains:
            ends = accumulate(stage.iterations for stage in chain)
            chains.append(tuple(replace(stage, iterations=end) for stage, end in zip(chain, ends, strict=True)))
        return ExperimentSpec(chains=tuple(chains))

    @classmethod
    def from_stages(cls, stages: Iterable[Stage | tuple[int, int]]) -> ExperimentSpec:
        """The free form: any list of stages or (trials, iterations) pairs."""
        chain = []
        for k, stage in enumerate(stages):
            try:
                chain.append(stage if isinstance(stage, Stage) else Stage(trials=stage[0], iterations=stage[1]))
            except InvalidInput as error:
                raise error.under(f"stages[{k}]") from None
        return cls(chains=(tuple(chain),))

    @classmethod
    def successive_halving(
        cls,
        *,
        n: int,
        r: int,
        R: int,  # noqa: N803 - the literature's letter
        eta: int,
        rungs: Literal["cumulative", "incremental"] = "cumulative",
    ) -> ExperimentSpec:
        """Successive halving: `n` trials, of which one in `eta` goes on after every rung.

        Args:
            n: trials of the first stage.
            r: iterations of the first rung.
            R: iterations in total of a trial that is never stopped.
            eta: reduction factor, an integer of at least 2.
            rungs: ``cumulative`` puts rung k at ``min(r * eta**k, R)`` iterations in total (Li et al., "A system
                for massively parallel hyperparameter tuning", MLSys 2020); ``incremental`` lets stage k add
                ``r * eta**k`` iterations (Misra et al., EuroSys 2021). Either way the last trial runs to R.

        Raises:
            InvalidInput: a number is not a positive integer, eta < 2, or r > R.
        """
        positive_int("n", n)
        _check_bracket(r, R, eta)
        if rungs not in ("cumulative", "incremental"):
            raise InvalidInput("rungs", f"must be 'cumulative' or 'incremental', got {rungs!r}")
        stages: list[tuple[int, int]] = []
        done, width, rung = 0, n, r
        while done < R:
            end = min(rung if rungs == "cumulative" else done + rung, R)
            if width == 1:
                end = R
            stages.append((width, end - done))
            done, width, rung = end, max(1, width // eta), rung * eta
        return cls.from_stages(stages)

    @classmethod
    def hyperband(cls, *, R: int, eta: int, r: int = 1) -> ExperimentSpec:  # noqa: N803 - the literature's letter
        """Hyperband's brackets, widest first (Li et al., "Hyperband", JMLR 18, 2018, algorithm 1).

        Args:
            R: iterations in total of a trial that is never stopped.
            eta: reduction factor, an integer of at least 2.
            r: the least iterations of a first rung; the algorithm has 1.

        Raises:
            InvalidInput: R or r is not a positive integer, r > R, or eta < 2.
        """
        _check_bracket(r, R, eta)
        s_max = 0
        while r * eta ** (s_max + 1) <= R:
            s_max += 1
        chains = []
        for s in range(s_max, -1, -1):
            n = -(-(s_max + 1) * eta**s // (s + 1))
            done, chain = 0, []
            for i in range(s + 1):
                end = R // eta ** (s - i)
                chain.append(Stage(trials=n // eta**i, iterations=end - done))
                done = end
            chains.append(tuple(chain))
        return cls(chains=tuple(chains))


def _check_bracket(r: int, R: int, eta: int) -> None:  # noqa: N803 - the literature's letter
    positive_int("r", r)
    positive_int("R", R)
    if r > R:
        raise InvalidInput("r", f"must not exceed R ({R}), got {r}")
    if isinstance(eta, bool) or not isinstance(eta, int) or eta < 2:
        raise InvalidInput("eta", f"must be an integer of at least 2, got {eta!r}")
