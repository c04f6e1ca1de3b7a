"""Data-parallel trials in Ray Tune."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rb_core.check import non_empty, positive, positive_int
from rb_core.errors import InvalidInput

if TYPE_CHECKING:
    from rb_ray.trainable.ranks import Options, Packed

KEY = "rb_ray.distributed(train_fn)"


def distributed(
    train_fn: Callable[..., Any],
    *,
    metric: str = "score",
    backend: str | None = None,
    timeout_s: float = 1800.0,
    checkpoint_every: int = 1,
    max_iterations: int | None = None,
    seed: int = 0,
) -> Callable[..., Any]:
    """A function trainable for Tune that runs `train_fn` on every slot of its trial, as one process each.

    A trial has as many slots as its placement group has bundles. Rank 0 is the trainable's own process in the first
    bundle; the others are actors in the bundles after it, which end with it. With one slot there is no actor. Every
    rank runs `train_fn` within one torch process group, so that torch's DistributedDataParallel works at any number.

    `train_fn` takes either (config, trial), as for ``rb-tune run``, see `rb_core.Trial`: each iteration in which it
    reports a score is one report to Tune, with a checkpoint from which the trial goes on with any number of slots.
    Or it takes (config), as any function of Tune's: then every rank calls ``tune.report`` and ``tune.get_checkpoint``,
    which give the same everywhere, and rank 0's reports and checkpoints count.

    Args:
        train_fn: the training function. Resources given to it by ``tune.with_resources`` stay.
        metric: what the score of a (config, trial) function is called in Tune.
        backend: of the process group, as torch names it; by default nccl where each rank has a GPU of its own,
            else gloo.
        timeout_s: longest wait for another rank in a collective operation.
        checkpoint_every: a (config, trial) function saves after each so many iterations, and at every stage's end
            that the scheduler tells of. A trial that Tune pauses in between repeats what came after.
        max_iterations: where a (config, trial) function ends by itself, and what ``trial.max_iterations`` is; by
            default what the scheduler tells, or else no end.
        seed: what a (config, trial) function's random numbers follow from, together with the trial's number.

    Raises:
        InvalidInput: an argument is out of its limits, or `train_fn` is no such function.
    """
    from rb_ray.trainable.ranks import Options, Packed

    _check_function(train_fn)
    options = Options(
        metric=non_empty("metric", metric),
        backend="" if backend is None else non_empty("backend", backend),
        timeout_s=positive("timeout_s", timeout_s),
        checkpoint_every=positive_int("checkpoint_every", checkpoint_every),
        max_iterations=None if max_iterations is None else positive_int("max_iterations", max_iterations),
        seed=seed,
    )
    packed = Packed(train_fn)

    def trainable(config: dict[str, Any], **parameters: Any) -> Any:
        return _train(packed, options, config, parameters)

    # Not functools.wraps: Tune would then take the signature of train_fn for the trainable's.
    own = {name: value for name, value in getattr(train_fn, "__dict__", {}).items() if name != "__wrapped__"}
    trainable.__dict__.update(own)
    trainable.__name__ = trainable.__qualname__ = getattr(train_fn, "__name__", "distributed")
    trainable.__doc__ = train_fn.__doc__
    return trainable


def _check_function(train_fn: object) -> None:
    if not callable(train_fn) or inspect.isclass(train_fn):
        raise InvalidInput(KEY, f"must be a function of (config, trial) or (config), got {train_fn!r}")
    if inspect.iscoroutinefunction(train_fn) or inspect.isgeneratorfunction(train_fn):
        raise InvalidInput(KEY, "must be a plain function; use trial.report() or tune.report() in place of yield")
    signature = inspect.signature(train_fn)
    takes = [p for p in signature.parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    if not takes:
        raise InvalidInput(KEY, f"must accept (config, trial) or (config), but its signature is {signature}")


def _train(packed: Packed, options: Options, config: dict[str, Any], parameters: Mapping[str, Any]) -> Any:
    """In the trainable's own process: run all ranks, and return what rank 0's function returns."""
    from pathlib import Path

    from ray import tune

    from rb_ray import _compat
    from rb_ray.trainable.allocation import get_allocation
    from rb_ray.trainable.lead import gathering_of, lead
    from rb_ray.trainable.ranks import Packed, Start

    if not _compat.in_session():
        raise InvalidInput(
            KEY,
            "makes a trainable for tune.Tuner, which alone can run it; call the training function itself to try it out",
        )
    allocation = get_allocation()
    context, checkpoint = tune.get_context(), tune.get_checkpoint()
    session = _compat.FollowersSession(
        trial_id=allocation.trial_id,
        trial_name=context.get_trial_name(),
        trial_dir=context.get_trial_dir(),
        experiment_name=context.get_experiment_name(),
        trial_resources=context.get_trial_resources(),
        loaded_checkpoint=checkpoint,
    )
    is_local = checkpoint is not None and checkpoint.filesystem.type_name == "local"
    start = Start(
        function=packed,
        config=config,
        parameters=parameters,
        options=options,
        allocation=allocation,
        gathering=gathering_of(allocation, options),
        session=Packed(session),
        checkpoint=Path(checkpoint.path) if checkpoint is not None and is_local else None,
    )
    return lead(start)
