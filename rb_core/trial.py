"""What the user's training function sees of its trial, and the messages between a trial's ranks and the engine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rb_core.errors import LaunchFailure, TrialMisuse
from rb_core.training import checkpoint, randomness
from rb_core.training.kept import KeptState
from rb_core.training.score import real_score
from rb_core.training.sharding import ShardedBatches

if TYPE_CHECKING:
    import torch

    from rb_core.ports import TrialRun
    from rb_core.training.channel import Channel
    from rb_core.training.gradients import Share
    from rb_core.training.peers import Peers

    Model = TypeVar("Model", bound=torch.nn.Module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Base of everything on the channel between a rank and the engine.

    An adapter extends the channel with messages of its own by subclassing; the engine hands those that it does
    not know to the adapter's handler, and sends back what the handler answers.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Message):
    """The rank is about to run the first iteration of this start.

    Attributes:
        restore_s: seconds spent in reading the checkpoint back.
    """

    restore_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Iterated(Message):
    """One iteration is over; `iterations` are done in total.

    Attributes:
        iterations: iterations done since the trial began, this one included.
        seconds: how long this one took.
    """

    iterations: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(Message):
    """The user's function reported a score during its `iterations`-th iteration."""

    iterations: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved(Message):
    """A checkpoint of the state after `iterations` iterations is complete at `checkpoint`."""

    iterations: int
    checkpoint: str
    size_bytes: int
    save_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRead(Message):
    """At the end of a start: the keys of the configuration that the function has read."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark(Message):
    """A remark for the person behind the run; equal texts are shown once."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Message):
    """From the engine: save and end after the current iteration."""


class Trial:
    """One start of one trial, as the training function sees it: ``def train(config: dict, trial: Trial)``.

    The function builds its model, hands what must be kept to `restore`, and loops over `iterations`; in each one
    it trains and reports a score. It is called anew for every stage, on as many processes (ranks) as the plan
    gives, and every rank runs the same code. Whatever follows the loop runs at the end of every stage::

        def train(config, trial):
            model = trial.wrap(Net(config["width"]))
            optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
            trial.restore(model=model, optimizer=optimizer)
            batches = trial.loader(dataset, global_batch_size=256)
            for iteration in trial.iterations():
                for x, y in batches:
                    optimizer.zero_grad()
                    loss(model(x), y).backward()
                    optimizer.step()
                trial.report(accuracy(model))

    Before the function starts, the generators of Python, numpy and torch are seeded from the run's seed and the
    trial's number, the same on every rank, so that models start equal; from `iterations` on every rank draws
    numbers of its own.

    Attributes:
        number: the trial's number in the run.
        rank: which of the trial's processes this is, from 0.
        world_size: how many processes there are.
        device: where to compute, as torch names it.
        from_iteration: iterations done before this start.
        to_iteration: where this stage ends; exclusive.
        max_iterations: where the last stage ends; what a learning-rate schedule should be laid out for.
        channel: the line to the engine, for adapters.
    """

    def __init__(
        self,
        run: TrialRun,
        *,
        rank: int,
        channel: Channel,
        peers: Peers,
        device: str = "cpu",
        grouped: bool = False,
        save_after: Callable[[int], bool] | None = None,
    ) -> None:
        """Called by launchers.

        Args:
            run: what is started.
            rank: which of its processes this is.
            channel: the line to the engine.
            peers: the line to the other ranks.
            device: where to compute.
            grouped: whether the ranks have a torch process group.
            save_after: whether to save after that many iterations in total, for hosts that ask for more checkpoints
                than the run does.

        Raises:
            LaunchFailure: the launcher has not brought the checkpoint from the run's depot.
        """
        if run.depot is not None:
            raise LaunchFailure(
                f"this launcher keeps checkpoints in folders alone, not in {run.depot.uri}; choose a folder, or "
                "another launcher"
            )
        self.number = run.trial
        self.rank = rank
        self.world_size = len(run.slots)
        self.device = device
        self.from_iteration = run.from_iteration
        self.to_iteration = run.to_iteration
        self.max_iterations = run.max_iterations
        self.channel = channel
        self._run = run
        self._peers = peers
        self._grouped = grouped
        self._save_after = save_after
        self._folder = checkpoint.trial_folder(run.storage, run.trial)
        self._kept: KeptState | None = None
        self._fills_folders = False
        self._share_of_batch: Share | None = None
        # The iteration under way, or the last one; None before the loop.
        self._now: int | None = None
        # What to do after it, once that is known: (stop, save).
        self._decided: tuple[bool, bool] | None = None
        self._ended = False
        self._stopped = False
        self._reported_in: int | None = None
        self._saved_in: int | None = None
        self._saved_at_s = 0.0
        self._own_loop = False

    # What a function of torch uses

    def wrap(self, model: Model, **options: Any) -> Model:
        """The model on its device; data-parallel over the ranks when there are several.

        The loss must be a mean over the samples of the rank's batch, as torch's losses are. A data-parallel model
        that holds buffers must be called by all ranks together, in evaluation too; let every rank evaluate
        (rank 0's report counts).

        Args:
            model: the model. Make it before the optimizer.
            options: passed to torch's DistributedDataParallel when there are several ranks.

        Raises:
            TrialMisuse: there are several ranks without a process group.
        """
        model = model.to(self.device)
        if self.world_size == 1:
            return model
        if not self._grouped:
            raise TrialMisuse(
                f"trial.wrap() over {self.world_size} processes needs the ddp launcher; "
                'set launcher = "ddp", or give each trial one slot'
            )
        from rb_core.training import gradients

        if self.rank == 0:
            for remark in gradients.remarks_on(model):
                self.channel.send(Remark(text=remark))
        return cast("Model", gradients.data_parallel(model, self._share(), **options))

    def loader(
        self,
        dataset: Any,
        *,
        global_batch_size: int,
        shuffle: bool = True,
        drop_last: bool = False,
        **options: Any,
    ) -> torch.utils.data.DataLoader[Any]:
        """A torch DataLoader of this rank's part of each global batch.

        The global batches and their order are the same at any number of ranks, and after a resumption. One pass
        over the loader is one pass over the data; begin a new pass in every iteration.

        Args:
            dataset: a map-style data set.
            global_batch_size: samples of one step, over all ranks together.
            shuffle: a new order for every pass.
            drop_last: leave out a last batch that is not full.
            options: anything else that DataLoader takes, such as ``num_workers``.

        Raises:
            InvalidInput: an iterable data set, a batch size that is no positive integer, or an option that the
                trial sets itself.
        """
        from rb_core.training.loader import ShardedLoader, check_loadable

        check_loadable(dataset, options)
        batches = ShardedBatches(
            size=len(dataset),
            global_batch_size=global_batch_size,
            rank=self.rank,
            world_size=self.world_size,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=self._run.seed,
            iteration=lambda: self.from_iteration if self._now is None else self._now,
        )
        return ShardedLoader(dataset, batches, self._share(), **options)

    def restore(self, **objects: Any) -> None:
        """Keep these objects' state over stages: loaded now if there is a checkpoint, saved by itself from here on.

        Call it once everything is built and before `iterations`. The states of the random generators are kept
        too. Without any object only the count of iterations is kept, for a function that has no state.

        Args:
            objects: anything with ``state_dict`` and ``load_state_dict``, by the name to keep it under.

        Raises:
            TrialMisuse: too late, a name used twice, an object without these methods, or mixed with `save`.
            DamagedCheckpoint: the checkpoint is missing, or not what was saved.
            UnusableCheckpoint: the checkpoint cannot be read, or does not fit the objects.
        """
        if self._now is not None:
            raise TrialMisuse("trial.restore() must come before the loop over trial.iterations()")
        if self._fills_folders:
            raise TrialMisuse(
                "state is kept in two ways; use trial.restore(), or trial.load() and trial.save(), but not both"
            )
        if self._kept is None:
            self._kept = KeptState(self._run.checkpoint)
        self._kept.add(objects)

    # What a function of any other framework uses

    def load(self) -> Path | None:
        """The folder that was saved last, to read from; None at the trial's first start.

        Raises:
            TrialMisuse: mixed with `restore`.
            DamagedCheckpoint: the folder is missing, or its files are not those that were saved.
            UnusableCheckpoint: the checkpoint is not a folder.
        """
        self._fill_folders()
        path = self._run.checkpoint
        return None if path is None else checkpoint.read_folder(path)

    @property
    def save_due(self) -> bool:
        """Whether to save in the iteration under way: its stage ends, or the last checkpoint is old enough.

        The same on every rank. Ask as late in the iteration as possible.
        """
        return self._now is not None and self._decide()[1]

    @contextmanager
    def save(self) -> Iterator[Path]:
        """A new folder to fill with the state as of the end of the iteration under way.

        It counts once the block ends without an error. Rank 0's folder is the one that is kept; other ranks get
        one that is thrown away.

        Raises:
            TrialMisuse: outside the loop, or mixed with `restore`.
            UnusableCheckpoint: the disk is full or refuses.
        """
        self._fill_folders()
        now = self._now
        if now is None:
            raise TrialMisuse("trial.save() must stand in the loop over trial.iterations()")
        if self.rank:
            with tempfile.TemporaryDirectory() as unused:
                yield Path(unused)
        else:
            began_s = time.perf_counter()
            with checkpoint.filling_folder(self._folder, now + 1) as (folder, final):
                yield folder
            self._tell_saved(final, now + 1, began_s)
        self._saved_in = now

    # What every function uses

    def iterations(self) -> Iterator[int]:
        """The numbers of the iterations of this stage that are still to do; run the loop to its end.

        Between two iterations the trial saves, if that is due, and ends early if the engine asked it to stop.

        Raises:
            TrialMisuse: used a second time, or what the checkpoint holds was not restored.
        """
        if self._now is not None:
            raise TrialMisuse(
                "trial.iterations() can be used once: the engine decides how many there are; use one loop"
            )
        self._begin()
        for iteration in range(self.from_iteration, self.to_iteration):
            self._now, self._decided = iteration, None
            began_s = time.perf_counter()
            yield iteration
            self._tell(Iterated(iterations=iteration + 1, seconds=time.perf_counter() - began_s))
            stop, save = self._decide()
            if save and self._kept is not None:
                self._write(self._kept, iteration + 1)
            if stop:
                self._stopped = True
                break
        self._ended = True

    def report(self, score: float) -> None:
        """Report the score of the iteration under way, or after the loop that of the last one. Rank 0's counts.

        Args:
            score: a real number; NaN ranks last. A tensor or array of one element will do.

        Raises:
            TrialMisuse: not a number, before the loop, or a second time in one iteration.
        """
        value = real_score(score)
        if self._now is None:
            raise TrialMisuse("trial.report() must stand in or after the loop over trial.iterations()")
        if self._reported_in == self._now:
            raise TrialMisuse(
                f"trial.report() was called a second time in iteration {self._now}; report one score an iteration"
            )
        self._reported_in = self._now
        self._tell(Reported(iterations=self._now + 1, score=value))

    def own_loop(self) -> TrialRun:
        """For adapters whose host brings a loop of its own: what was started, to be seen to by the adapter itself.

        It sends `Ready`, `Iterated`, `Reported` and `Saved` over `channel` as this class would.
        """
        self._own_loop = True
        return self._run

    def at(self, iteration: int) -> None:
        """For a loop of its own: that iteration is under way. The loaders' order of the data follows from it."""
        self._now = iteration

    def close(self) -> None:
        """Called by the launcher when the function has returned: wait for the other ranks and check what it did.

        Raises:
            TrialMisuse: the loop was not run to its end, nothing was reported, or nothing was saved at its end.
        """
        if self._own_loop:
            return
        if not self._ended:
            where = "never began" if self._now is None else f"left in iteration {self._now}"
            raise TrialMisuse(
                f"the function {where} the loop over trial.iterations(), which must be run to its end: "
                f"iteration {self.to_iteration - 1} is the stage's last"
            )
        if not self._stopped or self._now == self.to_iteration - 1:
            self._check_results()
        self._peers.gather("end", None)
        self._peers.broadcast("end", None)

    def _check_results(self) -> None:
        if self._reported_in is None:
            raise TrialMisuse("the stage ended without a score; call trial.report(score) in every iteration")
        if self._saved_in != self._now:
            raise TrialMisuse(
                "the stage ended without a checkpoint, so the next one would start from zero; call "
                "trial.restore(model=model, optimizer=optimizer) before the loop, or `with trial.save() as folder` "
                "in each iteration in which trial.save_due is true; trial.restore() alone says that there is "
                "nothing to keep"
            )

    def _begin(self) -> None:
        key = (self._run.seed, self.number, self.from_iteration)
        if self._kept is None:
            randomness.seed_all(*key, self.rank)
        elif self._kept.begin(rank=self.rank, world_size=self.world_size, key=key) == self._run.stage:
            self._reported_in = self.from_iteration - 1
        self._saved_at_s = time.monotonic()
        self._tell(Ready(restore_s=0.0 if self._kept is None else self._kept.restore_s))

    def _write(self, kept: KeptState, iterations: int) -> None:
        began_s = time.perf_counter()
        stage = None if self._reported_in is None else self._run.stage
        path = kept.write(self._folder, iterations, self._peers, reported_in_stage=stage)
        if path is not None:
            self._tell_saved(path, iterations, began_s)
        self._saved_in = iterations - 1

    def _decide(self) -> tuple[bool, bool]:
        """Whether to stop and to save after the iteration under way: rank 0 decides once, the others follow."""
        if self._decided is None:
            stop = self.rank == 0 and self.channel.stop_requested()
            last = self._now == self.to_iteration - 1
            due = time.monotonic() - self._saved_at_s >= self._run.checkpoint_every_s
            if self._save_after is not None and self._now is not None:
                due = due or self._save_after(self._now + 1)
            self._decided = self._peers.broadcast(f"iteration {self._now}", (stop, stop or last or due))
        stop, save = self._decided
        return stop, save

    def _fill_folders(self) -> None:
        if self._kept is not None:
            raise TrialMisuse(
                "state is kept in two ways; use trial.restore(), or trial.load() and trial.save(), but not both"
            )
        self._fills_folders = True

    def _share(self) -> Share:
        from rb_core.training.gradients import Share

        if self._share_of_batch is None:
            self._share_of_batch = Share(1 / self.world_size)
        return self._share_of_batch

    def _tell_saved(self, path: Path, iterations: int, began_s: float) -> None:
        self._saved_at_s = time.monotonic()
        size_bytes = checkpoint.size_bytes(path)
        save_s = time.perf_counter() - began_s
        self._tell(Saved(iterations=iterations, checkpoint=str(path), size_bytes=size_bytes, save_s=save_s))

    def _tell(self, message: Message) -> None:
        if self.rank == 0:
            self.channel.send(message)
