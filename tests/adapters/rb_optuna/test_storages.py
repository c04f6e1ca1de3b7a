"""The same study in every storage: the same trials, on processes as in one process alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import optuna
import parents
import pytest
from bench import bench, executor
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import Trial, TrialState

SPACE: dict[str, BaseDistribution] = {
    "lr": FloatDistribution(1e-4, 1e-1, log=True),
    "width": IntDistribution(1, 64),
    "kind": CategoricalDistribution(("flat", "steep")),
}


def objective(trial: Trial) -> float:
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    width = trial.suggest_int("width", 1, 64)
    slope = {"flat": 0.1, "steep": 1.0}[trial.suggest_categorical("kind", ("flat", "steep"))]
    trial.set_user_attr("slope", slope)
    for step in range(9):
        trial.report(lr * width + slope * step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return lr * width + slope * 8


def optimized(storage: BaseStorage, **options: object) -> parents.Outcome:
    """What twelve trials, a full round and a smaller one, come to."""
    study = optuna.create_study(
        storage=storage, study_name=parents.NAME, direction="maximize", sampler=RandomSampler(seed=5)
    )
    executor(study, search_space=SPACE, **options).optimize(objective, n_trials=12)
    assert {trial.user_attrs["slope"] for trial in study.trials} == {0.1, 1.0}
    return parents.summary(study)


@pytest.fixture(scope="module")
def inline() -> parents.Outcome:
    """What they come to in one process."""
    outcome = optimized(InMemoryStorage())
    states = [state for state, *_ in outcome.values()]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.PRUNED)) == (2, 10)
    return outcome


@contextmanager
def storage_of(kind: str, folder: Path, postgres: Callable[[], Callable[..., RDBStorage]]) -> Iterator[BaseStorage]:
    with ExitStack() as stack:
        if kind == "memory":
            yield InMemoryStorage()
        elif kind == "postgres":
            yield postgres()()
        else:
            place = str(folder / kind) if kind == "journal" else f"sqlite:///{folder / kind}"
            yield stack.enter_context(parents.opened(place))


@pytest.mark.parametrize("kind", ["memory", "sqlite", "journal", "postgres"])
def test_a_study_comes_to_the_same_in_every_storage(
    kind: str, tmp_path: Path, inline: parents.Outcome, request: pytest.FixtureRequest
) -> None:
    def postgres() -> Callable[..., RDBStorage]:
        connect: Callable[..., RDBStorage] = request.getfixturevalue("postgres_storage")
        return connect

    with storage_of(kind, tmp_path, postgres) as storage:
        assert optimized(storage, **bench(2)) == inline


@pytest.mark.parametrize("kind", ["sqlite", "journal", "postgres"])
def test_whoever_opens_the_storage_anew_reads_the_same(
    kind: str, tmp_path: Path, inline: parents.Outcome, request: pytest.FixtureRequest
) -> None:
    def postgres() -> Callable[..., RDBStorage]:
        connect: Callable[..., RDBStorage] = request.getfixturevalue("postgres_storage")
        return connect

    with storage_of(kind, tmp_path, postgres) as storage:
        optimized(storage)
    with storage_of(kind, tmp_path, postgres) as storage:
        study = optuna.load_study(study_name=parents.NAME, storage=storage)
        assert parents.summary(study) == inline
        assert study.best_trial.number == max(
            (n for n, (state, *_) in inline.items() if state == TrialState.COMPLETE), key=lambda n: inline[n][1] or 0.0
        )
