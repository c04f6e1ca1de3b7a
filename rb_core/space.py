"""Search spaces by scikit-learn's convention: a dict of choices or frozen scipy.stats distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rb_core.check import non_empty, one_of, positive_int
from rb_core.errors import InvalidInput

Method = Literal["random", "sobol"]
METHODS = ("random", "sobol")

_MOST_COUNTED = 100_000
"""Grids of choices up to this size are drawn from without replacement, as by scikit-learn's ParameterSampler."""

_EDGE = 2.0**-40
"""Distance that draws keep from 0 and 1, where unbounded distributions have no finite quantile."""


@runtime_checkable
class Distribution(Protocol):
    """A frozen scipy.stats distribution; one with a `pmf` gives integers."""

    def ppf(self, q: Any) -> Any:
        """The quantile function, for an array of probabilities."""


Space = Mapping[str, Sequence[Any] | Distribution]
"""Names of hyperparameters, each with its choices or its distribution."""


def sample(
    space: Space, trials: int, *, rng: np.random.Generator, method: Method = "random"
) -> tuple[dict[str, Any], ...]:
    """Draw one configuration for each trial.

    A space of choices alone is drawn from without replacement until it is used up, so that no two trials are
    the same while another choice is left.

    Args:
        space: the search space.
        trials: how many configurations.
        rng: source of randomness; equal generators give equal values, whatever the order of the names.
        method: ``random`` draws independently; ``sobol`` spreads by a scrambled Sobol sequence (Owen, 1998).

    Returns:
        Plain Python values, ready for JSON: choices as given (tuples as lists), integers, floats.

    Raises:
        InvalidInput: the space is empty, or holds what is neither choices nor a distribution, or a value that
            JSON cannot carry.
    """
    positive_int("trials", trials)
    one_of("method", method, METHODS)
    checked = {name: _checked(name, space[name]) for name in sorted(check_space(space))}
    sizes = [len(values) if isinstance(values, list) else math.inf for values in checked.values()]
    if method == "random" and math.prod(sizes) <= _MOST_COUNTED:
        return _without_replacement(checked, trials, rng)
    draws = _uniform(trials, len(checked), rng, method)
    columns = {name: _values(name, values, draws[:, i]) for i, (name, values) in enumerate(checked.items())}
    return tuple({name: columns[name][trial] for name in space} for trial in range(trials))


def check_space(space: Space) -> Space:
    """The same space when it can be drawn from.

    Raises:
        InvalidInput: as in `sample`.
    """
    if not isinstance(space, Mapping) or not space:
        raise InvalidInput("space", "must map at least one hyperparameter to its choices or its distribution")
    for name in space:
        _checked(non_empty("space", name), space[name])
    return space


def distribution(name: str, arguments: Sequence[float], *, key: str) -> Distribution:
    """A scipy.stats distribution by its name.

    Args:
        name: its name there. Arguments are scipy's own, but for ``uniform``, which takes low and high.
        arguments: its shape parameters, location and scale, in scipy's order.
        key: path of the value, for errors.

    Raises:
        InvalidInput: no such distribution, or it does not take these arguments.
    """
    from scipy import stats

    family = getattr(stats, name, None)
    if not isinstance(family, stats.rv_continuous | stats.rv_discrete):
        problem = f"must be the name of a scipy.stats distribution, such as loguniform, got {name!r}"
        raise InvalidInput(key, f"{problem}; {_meant(name)}")
    for number, argument in enumerate(arguments):
        if isinstance(argument, bool) or not isinstance(argument, int | float) or not math.isfinite(argument):
            raise InvalidInput(f"{key}[{number}]", f"must be a finite number, got {argument!r}")
    if name in _RANGES:
        _check_range(name, arguments, key)
    given = tuple(arguments)
    if name == "uniform":
        given = (given[0], given[1] - given[0])
    try:
        frozen: Distribution = family(*given)
        usable = bool(np.all(np.isfinite(frozen.ppf(np.array([0.25, 0.75])))))
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            key, f"scipy.stats.{name} does not take {list(arguments)}: {error}; see scipy.stats.{name}"
        ) from None
    if not usable:
        raise InvalidInput(key, f"scipy.stats.{name} has no values for {list(arguments)}; give others")
    return frozen


_ELSEWHERE = {
    "int": "randint",
    "integer": "randint",
    "intuniform": "randint",
    "uniformint": "randint",
    "float": "uniform",
    "logspace": "loguniform",
    "normal": "norm",
    "gaussian": "norm",
    "lognormal": "lognorm",
}
"""What other tools call distributions, without underscores, and scipy's names of them."""

_CHOICES = frozenset({"choice", "choices", "categorical", "grid", "values", "list"})


def _meant(name: str) -> str:
    """What to write in the place of a name that is no distribution's."""
    from scipy import stats

    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    if plain in _CHOICES:
        return "write choices as a list, such as [16, 32]"
    families = [
        other for other in dir(stats) if isinstance(getattr(stats, other), stats.rv_continuous | stats.rv_discrete)
    ]
    near = [_ELSEWHERE[plain]] if plain in _ELSEWHERE else get_close_matches(plain, families, n=1)
    return f"write {near[0]}" if near else "write choices as a list, such as [16, 32]"


_RANGES = frozenset({"uniform", "loguniform", "reciprocal", "randint"})
"""Families whose two arguments are low and high."""


def _check_range(name: str, arguments: Sequence[float], key: str) -> None:
    if len(arguments) != 2 or not arguments[0] < arguments[1]:
        raise InvalidInput(key, f"must be [low, high] with low below high, got {list(arguments)}")
    if name in ("loguniform", "reciprocal") and arguments[0] <= 0:
        raise InvalidInput(f"{key}[0]", f"must be above 0, got {arguments[0]!r}")
    if name == "randint" and not all(isinstance(argument, int) for argument in arguments):
        raise InvalidInput(key, f"must be two integers, the second exclusive, got {list(arguments)}")


def _checked(name: str, values: object) -> list[Any] | Distribution:
    key = f"space.{name}"
    if isinstance(values, Distribution):
        return values
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidInput(
            key,
            f"must be a list of choices or a frozen scipy.stats distribution, got {values!r}; "
            "write a single value as a list of one",
        )
    if not values:
        raise InvalidInput(key, "must hold at least one choice")
    return [_plain(value, f"{key}[{number}]") for number, value in enumerate(values)]


def _plain(value: object, key: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(key, f"must be finite, got {value!r}")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part, f"{key}[{number}]") for number, part in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _plain(part, f"{key}.{name}") for name, part in value.items()}
    raise InvalidInput(
        key,
        f"must be text, a number, true, false, None, or lists and dicts of them, got {value!r}; "
        "give a name and look it up in the training function",
    )


def _without_replacement(space: Mapping[str, Any], trials: int, rng: np.random.Generator) -> tuple[dict[str, Any], ...]:
    size = math.prod(len(values) for values in space.values())
    order = np.concatenate([rng.permutation(size) for _ in range(-(-trials // size))])[:trials]
    configs = []
    for rest in order.tolist():
        config = {}
        for name, values in space.items():
            rest, index = divmod(rest, len(values))
            config[name] = values[index]
        configs.append(config)
    return tuple(configs)


def _uniform(trials: int, width: int, rng: np.random.Generator, method: Method) -> NDArray[np.float64]:
    """Draws from (0, 1), shape (trials, width)."""
    if method == "random":
        draws = rng.random((trials, width))
    else:
        from scipy.stats import qmc

        sobol = qmc.Sobol(width, scramble=True, rng=rng)
        # The sequence is balanced over whole powers of two only.
        draws = sobol.random_base2(math.ceil(math.log2(trials)))[:trials]
    return np.clip(draws, _EDGE, 1.0 - _EDGE)


def _values(name: str, values: list[Any] | Distribution, draws: NDArray[np.float64]) -> list[Any]:
    if isinstance(values, list):
        return [values[int(draw * len(values))] for draw in draws]
    quantiles = np.asarray(values.ppf(draws), dtype=np.float64)
    if quantiles.shape != draws.shape or not np.all(np.isfinite(quantiles)):
        raise InvalidInput(f"space.{name}", "must be a distribution of single finite numbers")
    return [int(value) if hasattr(values, "pmf") else float(value) for value in quantiles]
