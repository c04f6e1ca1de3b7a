"""A torch objective goes from one process to two and back, and reports what one does that nobody disturbs."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
import torch
from optuna.trial import FixedTrial, TrialState
from rb_optuna import RubberBandExecutor, session
from torch import nn
from torch.utils.data import TensorDataset

from rb_core.hardware import Billing, Cloud, InstanceType, Latency
from rb_core.plan import AllocationPlan, Problem, StageAllocation
from rb_core.profile import ScalingProfile
from rb_core.providers.local import LocalProvider
from rb_plugins import Session, hookimpl, make_manager

RUNGS = {4: 2, 2: 4, 1: 8}
"""Trials, and the epochs that they have done by the end of their stage."""
WORLD_SIZES = (1, 2, 1)
"""Processes of a trial in each stage."""
BATCH = 9
"""Neither divides the samples nor is divided by two processes."""
BOX = InstanceType(name="box", slots=2, usd_per_hour=3.6)


def samples() -> TensorDataset:
    x = torch.linspace(-2, 2, 62, dtype=torch.float64).reshape(31, 2)
    return TensorDataset(x, (x.prod(dim=1, keepdim=True)).sin())


def made(trial: optuna.trial.BaseTrial) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model and its optimizer, from the trial's parameters."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    lr = trial.suggest_float("lr", 1e-3, 0.1, log=True)
    return model, torch.optim.SGD(model.parameters(), lr=lr, momentum=trial.suggest_float("momentum", 0.5, 0.95))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


@torch.no_grad()
def loss(model: nn.Module) -> float:
    x, y = samples().tensors
    return nn.functional.mse_loss(model(x), y).item()


def objective(trial: optuna.trial.BaseTrial) -> float:
    model, optimizer = made(trial)
    run = session(trial, model=model, optimizer=optimizer)
    net = run.wrap(model)
    batches = run.loader(samples(), global_batch_size=BATCH, shuffle=False)
    for epoch in run.steps(RUNGS[1]):
        for x, y in batches:
            step(net, optimizer, x, y)
        trial.set_user_attr(f"world size in epoch {epoch}", run.world_size)
        trial.report(loss(model), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return loss(model)


def undisturbed(params: dict[str, Any], epochs: int) -> Iterator[float]:
    """The losses of a plain loop without a session, in this process, batches in the data's own order."""
    model, optimizer = made(FixedTrial(params))
    xs, ys = samples().tensors
    for _ in range(epochs):
        for x, y in zip(xs.split(BATCH), ys.split(BATCH), strict=True):
            step(model, optimizer, x, y)
        yield loss(model)


class Given:
    """A planner that always gives the same plan."""

    name = "given"

    def plan(self, problem: Problem, rng: Any) -> AllocationPlan:
        assert [stage.trials for stage in problem.experiment.chains[0]] == list(RUNGS)
        stages = (StageAllocation(instance_type=BOX.name, nodes=1, slots_per_trial=w) for w in WORLD_SIZES)
        return AllocationPlan(chains=(tuple(stages),))


def rent(*, cloud: Cloud, clock: Any, inbox: Any) -> LocalProvider:
    """Two cores, however many this machine has."""
    return LocalProvider(cloud=cloud, clock=clock, inbox=inbox, slots=2)


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    plugin = SimpleNamespace(
        rubberband_register_planners=hookimpl(lambda: {"given": Given}),
        rubberband_register_providers=hookimpl(lambda: {"two cores": rent}),
    )
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    RubberBandExecutor(
        study,
        deadline="1h",
        planner="given",
        profile=ScalingProfile(iteration_s={1: Latency(mean=1.0), 2: Latency(mean=0.6)}),
        cloud=Cloud(instance_types=(BOX,), max_nodes=1, billing=Billing(minimum_s=0.0), provider="two cores"),
        provider="two cores",
        min_resource=RUNGS[4],
        max_resource=RUNGS[1],
        reduction_factor=2,
        launcher="ddp",
        session=Session(manager=make_manager(autoload=False, plugins=[plugin])),
    ).optimize(objective, n_trials=4)
    return study


def test_it_went_from_one_process_to_two_and_back(study):
    best = study.best_trial
    sizes = [best.user_attrs[f"world size in epoch {epoch}"] for epoch in range(RUNGS[1])]
    assert sizes == [1, 1, 2, 2, 1, 1, 1, 1]
    assert best.user_attrs["rubberband:allocation"] == list(WORLD_SIZES)
    assert best.user_attrs["rubberband:cost"] == pytest.approx(
        best.user_attrs["rubberband:gpu_seconds"] * BOX.usd_per_hour / 3600 / BOX.slots
    )


def test_every_trial_stopped_at_its_rung(study):
    lengths = sorted(len(trial.intermediate_values) for trial in study.trials)
    assert lengths == [2, 2, 4, 8]
    assert [trial.state for trial in study.trials].count(TrialState.PRUNED) == 3


@pytest.mark.parametrize("number", range(4))
def test_it_reports_what_an_uninterrupted_run_in_one_process_does(study, number):
    trial = study.trials[number]
    reported = [trial.intermediate_values[epoch] for epoch in sorted(trial.intermediate_values)]
    assert reported == pytest.approx(list(undisturbed(trial.params, len(reported))), rel=0, abs=1e-6)


def test_its_value_is_the_last_one(study):
    best = study.best_trial
    assert best.value == best.intermediate_values[RUNGS[1] - 1]
    assert len({round(value, 6) for value in best.intermediate_values.values()}) == RUNGS[1]


def test_the_same_objective_alone_comes_to_the_same_value(study):
    best = study.best_trial
    assert objective(FixedTrial(best.params)) == pytest.approx(best.value, rel=0, abs=1e-6)
