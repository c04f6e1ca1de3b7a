"""The key `experiment`: stages, successive halving, Hyperband, or chains of stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rb_core.errors import InvalidInput
from rb_core.spec import ExperimentSpec, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class HalvingTable:
    """The numbers of `ExperimentSpec.successive_halving`."""

    n: int
    r: int
    R: int
    eta: int
    rungs: Literal["cumulative", "incremental"] = "cumulative"

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> ExperimentSpec:
        """The experiment of these numbers."""
        return _made(ExperimentSpec.successive_halving, asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperbandTable:
    """The numbers of `ExperimentSpec.hyperband`."""

    R: int
    eta: int

    def __post_init__(self) -> None:
        self.spec()

    def spec(self) -> ExperimentSpec:
        """The experiment of these numbers."""
        return _made(ExperimentSpec.hyperband, asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTable:
    """One of several chains."""

    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentTable:
    """Exactly one of its keys is given."""

    stages: tuple[Stage, ...] | None = None
    successive_halving: HalvingTable | None = None
    hyperband: HyperbandTable | None = None
    chains: tuple[ChainTable, ...] | None = None

    def __post_init__(self) -> None:
        given = [name for name in self.__slots__ if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidInput(
                "",
                "must hold exactly one of stages, successive_halving, hyperband and chains, "
                f"got {' and '.join(given) or 'none'}",
            )
        self.spec()

    def spec(self) -> ExperimentSpec:
        """The experiment.

        Raises:
            InvalidInput: its numbers give none; the key is relative to `experiment`.
        """
        if self.chains is not None:
            return ExperimentSpec(chains=tuple(chain.stages for chain in self.chains))
        made = self.successive_halving or self.hyperband
        return made.spec() if made is not None else ExperimentSpec(chains=(self.stages or (),))


def _made(make: Callable[..., ExperimentSpec], numbers: dict[str, Any]) -> ExperimentSpec:
    try:
        return make(**numbers)
    except InvalidInput as error:
        if error.key in numbers:
            raise
        raise InvalidInput("", f"gives stages that cannot be run: {error}; change its numbers") from None


def experiment_table(spec: ExperimentSpec) -> dict[str, Any]:
    """The canonical form of an experiment."""
    chains = [
        {"stages": [{"trials": stage.trials, "iterations": stage.iterations} for stage in chain]}
        for chain in spec.chains
    ]
    return chains[0] if len(chains) == 1 else {"chains": chains}
