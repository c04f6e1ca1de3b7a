"""Functions written against `rb_core.Trial`, as trials of Tune: each scored iteration is one report to it."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_core.errors import DamagedCheckpoint, TrialMisuse, UnusableCheckpoint
from rb_core.ports import Slot, TrialRun
from rb_core.training import checkpoint as files
from rb_core.trial import Message, Remark, Reported, Saved, Trial
from rb_ray.trainable.allocation import Allocation, trial_number

if TYPE_CHECKING:
    from ray import tune

SCHEMA = 1
"""Version of the list in a checkpoint."""

_LIST = "rubberband.json"
_UNKNOWN = sys.maxsize

_log = logging.getLogger(__name__)


class ReportChannel:
    """The trial's channel: keeps what an iteration said until it is over.

    Attributes:
        score: what was reported last.
        scored_in: in which iteration, counted from 1.
    """

    def __init__(self) -> None:
        self.score: float | None = None
        self.scored_in = 0
        self._saved: Saved | None = None

    def send(self, message: Message) -> None:
        """Keep it, or log it."""
        match message:
            case Reported():
                self.score, self.scored_in = message.score, message.iterations
            case Saved():
                if self._saved is not None:
                    files.delete(self._saved.checkpoint)
                self._saved = message
            case Remark():
                _log.warning("%s", message.text)

    def take(self, iterations: int) -> Path | None:
        """The checkpoint of the state after that many iterations, if there is one; it is the caller's to delete."""
        saved = self._saved
        if saved is None or saved.iterations != iterations:
            return None
        self._saved = None
        return Path(saved.checkpoint)

    def ask(self, message: Message) -> Message:
        """Nobody answers: rung decisions are Tune's."""
        raise ConnectionError(f"Ray Tune has no answer to {type(message).__name__}")

    def stop_requested(self) -> bool:
        """Never: Tune ends a trial while it reports."""
        return False


class TuneTrial(Trial):
    """A trial whose iterations Tune is told of.

    Args:
        run: what is started.
        tell: on rank 0, told (iterations, score, folder of a checkpoint or None) when an iteration is over. May not
            return: Tune ends a trial in it.
        until: iterations at the end of the stage, which is told of in any case; None if unknown.
        save_after: after which iterations, in total, there must be a checkpoint.
        options: what `Trial` takes.
    """

    def __init__(
        self,
        run: TrialRun,
        *,
        channel: ReportChannel,
        tell: Callable[[int, float, Path | None], None],
        until: int | None,
        save_after: Callable[[int], bool],
        **options: Any,
    ) -> None:
        super().__init__(run, channel=channel, save_after=save_after, **options)
        self._due_after = save_after
        self._until = until
        self._tell_tune = tell
        self._reports = channel
        self._told = run.from_iteration
        self._begun = run.from_iteration

    @property
    def max_iterations(self) -> int:
        """Where the last stage ends.

        Raises:
            TrialMisuse: neither the scheduler nor the caller of `rb_ray.distributed` has said.
        """
        if self._most == _UNKNOWN:
            raise TrialMisuse(
                "trial.max_iterations is not known, since this scheduler does not tell it to trials; "
                "give rb_ray.distributed(train, max_iterations=...)"
            )
        return self._most

    @max_iterations.setter
    def max_iterations(self, value: int) -> None:
        self._most = value

    def iterations(self) -> Iterator[int]:
        """As `Trial.iterations`; Tune may end the trial between two of them."""
        for iteration in super().iterations():
            self._close_iteration()
            self._begun = iteration + 1
            yield iteration
        self._close_iteration()

    def close(self) -> None:
        """As `Trial.close`."""
        super().close()
        self._close_iteration()

    def _close_iteration(self) -> None:
        """Tell Tune of the iteration that has just ended, all of its saving done."""
        done, reports = self._begun, self._reports
        if self.rank or done == self._told:
            return
        if reports.scored_in != done and not (done == self._until and reports.score is not None):
            if done == self._until:
                raise TrialMisuse("the stage ended without a score; call trial.report(score) in every iteration")
            return
        saved = reports.take(done)
        if saved is None and self._due_after(done):
            raise TrialMisuse(
                f"iteration {done - 1} ended without a checkpoint, so a trial that Tune pauses would start from zero; "
                "call trial.restore(model=model, optimizer=optimizer) before the loop, or `with trial.save() as "
                "folder` in each iteration in which trial.save_due is true; trial.restore() alone says that there is "
                "nothing to keep"
            )
        self._told = done
        score = math.nan if reports.score is None else reports.score
        if saved is None:
            self._tell_tune(done, score, None)
            return
        (saved.parent / _LIST).write_text(json.dumps({"schema": SCHEMA, "iterations": done, "state": saved.name}))
        self._tell_tune(done, score, saved.parent)
        files.delete(saved)


def a_run(
    config: Mapping[str, Any],
    allocation: Allocation,
    *,
    folder: Path,
    restored: tuple[int, Path | None],
    max_iterations: int | None,
    seed: int,
) -> TrialRun:
    """The start of a trial of Tune in the core's terms.

    Args:
        config: its configuration.
        allocation: its slots.
        folder: where it writes checkpoints before Tune takes them.
        restored: iterations done so far, and the state after them.
        max_iterations: iterations when the last stage ends; None for what the scheduler says, if anything.
        seed: seed of the run.
    """
    most = max_iterations or allocation.max_iterations or _UNKNOWN
    device = "0" if allocation.gpus_per_slot else ""
    nodes = allocation.node_ids or ("",) * allocation.slots
    return TrialRun(
        trial=trial_number(allocation.trial_id),
        stage=allocation.stage or 0,
        config=config,
        slots=tuple(Slot(node=node, index=index, device=device) for index, node in enumerate(nodes)),
        from_iteration=restored[0],
        to_iteration=most,
        max_iterations=most,
        checkpoint=restored[1],
        storage=folder,
        logs=folder,
        seed=seed,
        checkpoint_every_s=math.inf,
    )


def saving_after(every: int, allocation: Allocation, most: int) -> Callable[[int], bool]:
    """After which iterations to save: every so many, and at the ends of the stage and of the trial.

    Args:
        every: iterations from one checkpoint to the next.
        allocation: which tells where the stage ends.
        most: iterations when the trial ends.
    """
    return lambda done: done % every == 0 or done in (allocation.until, most)


@contextmanager
def restored_from(checkpoint: tune.Checkpoint | Path | None) -> Iterator[tuple[int, Path | None]]:
    """Iterations done when a checkpoint of Tune's was written, and the state in it, readable within the context.

    Args:
        checkpoint: Tune's, or the folder that it stands for; None at a trial's first start.

    Raises:
        DamagedCheckpoint: it is not there, or cut short.
        UnusableCheckpoint: it was not written by a function of this kind, or by a newer version.
    """
    if checkpoint is None:
        yield 0, None
    elif isinstance(checkpoint, Path):
        yield _listed(checkpoint)
    else:
        with checkpoint.as_directory() as folder:
            yield _listed(Path(folder))


def _listed(folder: Path) -> tuple[int, Path]:
    try:
        text = (folder / _LIST).read_text()
    except FileNotFoundError:
        if not folder.is_dir():
            raise DamagedCheckpoint(
                f"checkpoint {folder} is not there; with several nodes, storage_path must be one that all of them see"
            ) from None
        raise UnusableCheckpoint(
            f"checkpoint {folder} was not written by a function that takes (config, trial); "
            "go on with the function that wrote it"
        ) from None
    try:
        listed = json.loads(text)
        schema, iterations, state = listed["schema"], int(listed["iterations"]), folder / str(listed["state"])
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"checkpoint {folder} is damaged: {_LIST} cannot be read ({error})") from None
    if schema != SCHEMA:
        raise UnusableCheckpoint(f"checkpoint {folder} is of schema {schema!r}; this version reads {SCHEMA}")
    return iterations, state


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder of this trial on this node for checkpoints that Tune has not taken yet.

    Tune may end the process at any report, so the folder stands in the trial's own, where the next start finds it.
    """
    if os.environ.get("RAY_CHDIR_TO_TRIAL_DIR", "1") == "0":
        with tempfile.TemporaryDirectory(prefix="rubberband-") as folder:
            yield Path(folder)
        return
    folder = os.path.abspath(".rubberband")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tell_tune(metric: str) -> Callable[[int, float, Path | None], None]:
    """What rank 0 tells Tune with: the score under the metric's name, and the checkpoint, if there is one."""
    from ray import tune

    def tell(iterations: int, score: float, folder: Path | None) -> None:
        checkpoint = None if folder is None else tune.Checkpoint.from_directory(folder)
        tune.report({metric: score, "training_iteration": iterations}, checkpoint=checkpoint)

    return tell
