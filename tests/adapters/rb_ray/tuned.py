"""Training functions of the tests of trials under Tune; each takes what it is to do from its configuration."""

import json
import os
import signal
import threading
from pathlib import Path

import rb_ray
import torch
import torch.distributed as dist
from ray import tune
from torch.utils.data import TensorDataset

SAMPLES = 103
FEATURES = 6


def note(config, name, value=None):
    """Leave a note of this rank for the test; a name that is taken gets a number more."""
    folder = Path(config["notes"])
    count = len(list(folder.glob(f"{name}.rank-{dist.get_rank()}.*")))
    (folder / f"{name}.rank-{dist.get_rank()}.{count}").write_text(json.dumps(value))


def fits(config, trial):
    """Linear regression whose batches do not divide; momentum is state, too."""
    dataset = data()
    model = trial.wrap(torch.nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    trial.restore(model=model, optimizer=optimizer)
    batches = trial.loader(dataset, global_batch_size=17)
    if "notes" in config:
        note(config, "start", [os.getpid(), trial.from_iteration, trial.world_size, trial.max_iterations])
    for _ in trial.iterations():
        for x, y in batches:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            x, y = dataset.tensors
            trial.report(torch.nn.functional.mse_loss(model(x), y))


def data():
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    return TensorDataset(x, x @ torch.arange(1.0, FEATURES + 1)[:, None] + 0.1)


def misbehaves(config, trial):
    """A collective in each iteration, after what the configuration says on the rank that it names."""
    how, rank = config["case"]["how"], config["case"]["rank"]
    note(config, f"{how} {rank}", os.getpid())
    trial.restore()
    for iteration in trial.iterations():
        if iteration == 1:
            if trial.rank == rank:
                MISBEHAVIOUR[how](trial)
            elif "hangs" in how:
                threading.Event().wait()
        dist.all_reduce(torch.ones(1))
        trial.report(iteration)


def _raise(trial):
    raise ValueError("boom")


def _part(trial):
    trial._peers.broadcast("elsewhere", None)


MISBEHAVIOUR = {
    "fail while rank 0 hangs": _raise,
    "fail while rank 1 hangs": _raise,
    "kill": lambda trial: os.kill(os.getpid(), signal.SIGKILL),
    "part": _part,
}


def plain(config, offset=0):
    """An ordinary function of Tune's that fails once, after its second report."""
    checkpoint = tune.get_checkpoint()
    done = 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            done = int((Path(folder) / "done").read_text())
    allocation = rb_ray.get_allocation()
    context = tune.get_context()
    note(
        config,
        "start",
        [done, context.get_trial_id() == allocation.trial_id, context.get_trial_name(), list(allocation.node_ids)],
    )
    total = torch.ones(1)
    while True:
        dist.all_reduce(total)
        done += 1
        folder = Path(f"rank-{dist.get_rank()}")
        folder.mkdir(exist_ok=True)
        (folder / "done").write_text(str(done))
        tune.report({"total": total.item() + offset}, checkpoint=tune.Checkpoint.from_directory(folder))
        if done == 2 and checkpoint is None:
            raise RuntimeError("once")
