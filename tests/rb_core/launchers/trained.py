"""Training functions of the launchers' tests; `act` does what the configuration names."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from rb_core.errors import UnusableCheckpoint
from rb_core.trial import Remark, Trial

SAMPLES = 103
FEATURES = 6


def act(config: dict, trial: Trial) -> None:
    globals()[config["act"]](config, trial)


def meets(config, trial):
    """A good stage with a collective in each iteration, after `misbehave` on the named rank."""
    trial.restore()
    for _ in trial.iterations():
        if trial.rank == config.get("rank"):
            MISBEHAVIOUR[config["how"]]()
        total = torch.ones(1)
        dist.all_reduce(total)
        trial.report(total)


def _raise():
    print("first line")
    print("last line")
    raise ValueError("boom")


def _lose_the_others():
    raise ConnectionError("this rank says that another one is gone")


def _refuse_stop():
    os.kill(os.getpid(), signal.SIGSTOP)


MISBEHAVIOUR = {
    "raise": _raise,
    "exit": lambda: os._exit(5),
    "exit well": lambda: os._exit(0),
    "sys.exit": lambda: sys.exit("enough"),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda: ctypes.string_at(0),
    "freeze": _refuse_stop,
    "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    "lose": _lose_the_others,
}


def fits(config, trial):
    """Linear regression whose batches do not divide (the last is one sample); scheduler and momentum are state."""
    dataset = data()
    model = trial.wrap(torch.nn.Linear(FEATURES, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    trial.restore(model=model, optimizer=optimizer, scheduler=scheduler)
    batches = trial.loader(dataset, global_batch_size=17, num_workers=config.get("loader_processes", 0))
    for _ in trial.iterations():
        for x, y in batches:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        scheduler.step()
        with torch.no_grad():
            x, y = dataset.tensors
            trial.report(torch.nn.functional.mse_loss(model(x), y))


def data():
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    return TensorDataset(x, x @ torch.arange(1.0, FEATURES + 1)[:, None] + 0.1)


def draws(config, trial):
    """Report what the generator gives: the same after a resumption at the same world size."""
    trial.restore()
    for _ in trial.iterations():
        trial.channel.send(Remark(text=f"rank {trial.rank} draws {torch.rand(1).item()}"))
        trial.report(0)


def starts_equal(config, trial):
    """Before the loop every rank draws the same; in it not."""
    trial.channel.send(Remark(text=str(torch.rand(1).item())))
    draws(config, trial)


class Thing:
    """Something to keep."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def keeps_a_function(config, trial):
    thing = Thing({"inner": [1, {"deep": 2}]})
    trial.restore(thing=thing)
    for iteration in trial.iterations():
        if iteration == 1:
            thing.state["inner"][1]["deep"] = lambda: None
        trial.report(0)


def goes_on(config, trial):
    """Keep a tensor, whose sum is the score; `wrap` says what becomes of an error while it is restored."""
    thing = Thing({"block": torch.ones(1000)})
    try:
        trial.restore(thing=thing)
    except UnusableCheckpoint as error:
        match config.get("wrap"):
            case "from":
                raise RuntimeError("no model") from error
            case "hide":
                raise RuntimeError("no model") from None
            case "exit":
                sys.exit("no model")
        raise
    for _ in trial.iterations():
        trial.report(thing.state["block"].sum())


def complains(config, trial):
    """Fail with a message as long as one that lists every name of a large model."""
    raise UnusableCheckpoint("first" + "x" * 1_000_000 + "last")


def fills_the_disk(config, trial):
    thing = Thing({"block": torch.zeros(10)})
    trial.restore(thing=thing)
    for iteration in trial.iterations():
        if iteration == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            thing.state["block"] = torch.zeros(100_000)
        trial.report(0)


def abandons(config, trial):
    child = subprocess.Popen(
        [sys.executable, "-c", "import threading; threading.Event().wait()"], start_new_session=True
    )
    trial.channel.send(Remark(text=str(child.pid)))
    meets(config, trial)


def waits(config, trial):
    trial.channel.send(Remark(text=str(os.getpid())))
    threading.Event().wait()


def tells_threads(config, trial):
    trial.channel.send(Remark(text=f"{torch.get_num_threads()} {os.environ['OMP_NUM_THREADS']}"))
    meets(config, trial)


def normalises(config, trial):
    trial.wrap(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5)))
    meets(config, trial)


def diverges(config, trial):
    """The world falls apart: rank 0 leaves the loop's path."""
    trial.restore()
    for _ in trial.iterations():
        if trial.rank == 0:
            trial._peers.broadcast("elsewhere", None)
        trial.report(0)


class Unreadable(Remark):
    """A message that only its sender can read."""

    def __reduce__(self):
        return (int, ("nonsense",))


def tells_nonsense(config, trial):
    trial.channel.send(Unreadable(text=""))
    threading.Event().wait()
