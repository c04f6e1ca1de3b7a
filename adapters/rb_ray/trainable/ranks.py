"""One rank of a trial under Tune, and the actors that ranks 1 and up are."""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from rb_core.training.configuration import Configuration
from rb_core.training.randomness import seed_all
from rb_ray.trainable.allocation import Allocation, hold
from rb_ray.trainable.ending import End, ending
from rb_ray.trainable.group import Gathering, process_group

if TYPE_CHECKING:
    from rb_ray._compat import FollowersSession

_cloudpickle: Any = ray.cloudpickle


class Packed:
    """A value that is unpacked when it is asked for, and not where it is only passed on.

    A training function brings all that it imports along; with this, rank 0 can start the other ranks before.
    """

    def __init__(self, value: Any, data: bytes = b"") -> None:
        self._value = value
        self._data = data

    def __reduce__(self) -> tuple[type[Packed], tuple[None, bytes]]:
        return (Packed, (None, self._data or _cloudpickle.dumps(self._value)))

    def unpack(self) -> Any:
        """The value."""
        if self._data:
            self._value, self._data = _cloudpickle.loads(self._data), b""
        return self._value


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `rb_ray.distributed` was told.

    Attributes:
        metric: name of the score of functions that take a trial.
        backend: as torch names it; empty for the one that fits.
        timeout_s: longest wait for another rank.
        checkpoint_every: iterations from one checkpoint to the next.
        max_iterations: iterations when the trial ends; None for what the scheduler says, if anything.
        seed: seed of the run.
    """

    metric: str
    backend: str
    timeout_s: float
    checkpoint_every: int
    max_iterations: int | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What every rank needs to know.

    Attributes:
        function: the training function.
        config: the trial's configuration.
        parameters: what ``tune.with_parameters`` adds.
        options: how to train.
        allocation: the trial's slots.
        gathering: how the ranks come together.
        session: what Tune told rank 0.
        checkpoint: folder of the checkpoint to go on from where that is local; None where it is not, or there is none.
    """

    function: Packed
    config: Mapping[str, Any]
    parameters: Mapping[str, Any]
    options: Options
    allocation: Allocation
    gathering: Gathering
    session: Packed
    checkpoint: Path | None


def run_rank(start: Start, rank: int, listener: socket.socket | None = None) -> Any:
    """Run the training function as one rank of its trial, in this process; what it returns.

    The process group stays, see `rb_ray.trainable.group.leave`.
    """
    function = start.function.unpack()
    with process_group(start.gathering, rank, listener) as peers:
        if not takes_trial(function, start.parameters):
            if rank:
                from rb_ray import _compat

                _compat.follow(start.session.unpack())
            return function(dict(start.config), **start.parameters)

        from rb_ray.trainable import reporting

        options, allocation = start.options, start.allocation
        with (
            reporting.restored_from(start.checkpoint or _elsewhere(start.session)) as restored,
            nullcontext(Path()) if rank else reporting.scratch() as folder,
        ):
            run = reporting.a_run(
                start.config,
                allocation,
                folder=folder,
                restored=restored,
                max_iterations=options.max_iterations,
                seed=options.seed,
            )
            if run.from_iteration >= run.to_iteration:
                return None
            seed_all(run.seed, run.trial)
            trial = reporting.TuneTrial(
                run,
                rank=rank,
                channel=reporting.ReportChannel(),
                peers=peers,
                device=start.gathering.device,
                grouped=True,
                tell=reporting.tell_tune(options.metric) if rank == 0 else _tell_nobody,
                until=allocation.until,
                save_after=reporting.saving_after(options.checkpoint_every, allocation, run.to_iteration),
            )
            function(Configuration(run.config), trial, **start.parameters)
            trial.close()
            return None


def takes_trial(function: Callable[..., Any], parameters: Mapping[str, Any]) -> bool:
    """Whether a function wants (config, trial) and not (config) alone, beside the parameters that it is given."""
    wanted = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        and parameter.name not in parameters
    ]
    return len(wanted) > 1


class Follower:
    """The actor that a rank above 0 is."""

    def run(self, start: Start, rank: int) -> End:
        """Run the training function to its end, whatever that is."""
        hold(start.allocation)
        try:
            run_rank(start, rank)
        except BaseException as error:
            return ending(rank, error)
        return End(rank=rank)

    def pid(self) -> int:
        """The process."""
        return os.getpid()


def _elsewhere(session: Packed) -> Any:
    told: FollowersSession = session.unpack()
    return told.loaded_checkpoint


def _tell_nobody(iterations: int, score: float, folder: Path | None) -> None:
    pass
