"""What a resumable objective adds: its state is kept where it may have to leave its process."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import cloudpickle
from optuna.trial import BaseTrial

from rb_core.errors import TrialMisuse
from rb_core.ports import Slot, TrialRun
from rb_core.training import checkpoint
from rb_core.training.kept import KeptState
from rb_core.training.peers import Alone
from rb_core.trial import Message, Saved, Trial
from rb_optuna.gate import Gate, Line
from rb_optuna.messages import CanResume

if TYPE_CHECKING:
    import torch

    Model = TypeVar("Model", bound=torch.nn.Module)

_ATTRIBUTE = "_rubberband_session"
_STATE = "state.pkl"
_ENDLESS = 2**63 - 1


def session(trial: BaseTrial, **objects: Any) -> Session:
    """Let an objective be suspended at a rung and go on elsewhere, on another number of processes.

    The same objective runs unchanged under ``study.optimize``, with a ``FixedTrial``, or alone: nothing is kept then.

    .. code-block:: python

        def objective(trial):
            model = Net(trial.suggest_int("width", 16, 256))
            optimizer = torch.optim.SGD(model.parameters(), lr=trial.suggest_float("lr", 1e-4, 1e-1, log=True))
            run = rb_optuna.session(trial, model=model, optimizer=optimizer)
            for epoch in run.steps(81):
                train(model, optimizer)
                trial.report(evaluate(model), epoch)
                if trial.should_prune():
                    raise optuna.TrialPruned()
            return evaluate(model)

    Args:
        trial: the trial that the objective was called with.
        objects: anything with ``state_dict`` and ``load_state_dict``, by the name to keep it under: restored now if
            the trial ran before, and saved at rungs. Build them before.

    Returns:
        The session; the same one when called again.

    Raises:
        rb_core.errors.TrialMisuse: an object lacks these methods, or a name is used twice.
        rb_core.errors.UnusableCheckpoint: what was saved does not fit the objects.
    """
    known: Session | None = getattr(trial, _ATTRIBUTE, None)
    if known is None:
        known = _unattached(trial)
    if objects:
        known.keep(**objects)
    return known


def attach(trial: BaseTrial, session: Session) -> None:
    """Let `session` answer for a trial."""
    setattr(trial, _ATTRIBUTE, session)


class Session:
    """One start of a resumable objective.

    Attributes:
        start_step: steps that are done already; the first one to do.
        rank: which of the trial's processes this is, from 0.
        world_size: how many there are.
        device: where to compute, as torch names it.
    """

    def __init__(self, trial: Trial, run: TrialRun, gate: Gate | None = None, line: Line | None = None) -> None:
        """Called by what runs objectives.

        Args:
            trial: the core's view of the trial.
            run: what is started.
            gate: the trial's rungs; None where nothing is ever suspended.
            line: to the parent.
        """
        self.start_step = run.from_iteration
        self.rank = trial.rank
        self.world_size = trial.world_size
        self.device = trial.device
        self._trial = trial
        self._run = run
        self._gate = gate
        self._line = line
        self._kept: KeptState | None = None
        self._saved_at = run.from_iteration
        self._saved_s = time.monotonic()
        self._asked_at = run.from_iteration
        self._stride = 1
        self._saved: Saved | None = None
        if gate is not None:
            gate.save = self._save_objects
            gate.reported = self._tell_saved

    @property
    def checkpoint_dir(self) -> Path:
        """Folder of the trial's checkpoints."""
        return checkpoint.trial_folder(self._run.storage, self._run.trial)

    def keep(self, **objects: Any) -> None:
        """Keep these objects' state; restored now if the trial ran before. Raises as `session`."""
        if self._gate is None:
            return
        if self._kept is None:
            self._kept = KeptState(self._run.checkpoint)
            self._can_resume()
        try:
            self._kept.add(objects)
        except TrialMisuse as error:
            raise TrialMisuse(str(error).replace("trial.restore(", "rb_optuna.session(trial, ")) from None

    def steps(self, n_steps: int) -> Iterator[int]:
        """The steps that are still to do, of ``range(n_steps)``; call `optuna.Trial.report` with each.

        The random generators of Python, numpy and torch go on where those of rank 0 stood on a trial that goes on with
        one process; of several every rank draws numbers of its own.
        """
        restored_s = 0.0
        if self._kept is not None:
            restored_s = self._kept.restore_s
            if self._run.checkpoint is not None:
                key = (self._run.seed, self._run.trial, self.start_step)
                self._kept.begin(rank=self.rank, world_size=self.world_size, key=key)
        if self._gate is not None:
            self._gate.begin(restored_s)
        for step in range(self.start_step, n_steps):
            self._trial.at(step)
            yield step

    def load(self) -> Any:
        """What was given to `save` last; None at the trial's first start, so ``run.load() or {...}``."""
        if self._gate is None:
            return None
        self._can_resume()
        if self._run.checkpoint is None:
            return None
        return pickle.loads((checkpoint.read_folder(self._run.checkpoint) / _STATE).read_bytes())

    def save(self, state: Any) -> None:
        """Keep a state of any framework; call it in every step, before the report.

        It is written, by rank 0, where a rung may be near and now and then in between; not after the last step.

        Args:
            state: anything that can be pickled, as of the end of the step that is reported next.

        Raises:
            TrialMisuse: objects are kept already; keep all or save all.
        """
        if self._kept is not None:
            raise TrialMisuse(
                "state is kept in two ways; give objects to session(), or use load() and save(), but not both"
            )
        gate = self._gate
        if gate is None or self._line is None or self.rank:
            return
        self._can_resume()
        if gate.done > self._asked_at:
            self._stride, self._asked_at = gate.done - self._asked_at, gate.done
        iterations = gate.done + self._stride
        if iterations >= self._run.max_iterations:
            return  # who has done all that there is would not be started again, and what it returns be lost
        late = time.monotonic() - self._saved_s >= self._run.checkpoint_every_s
        if not (late or gate.near(iterations) or self._line.stop_requested()):
            return
        began_s = time.perf_counter()
        with checkpoint.filling_folder(self.checkpoint_dir, iterations) as (folder, final):
            (folder / _STATE).write_bytes(cloudpickle.dumps(state))
        # Told with the step's report: whoever goes on from here does not do the step again, so could not report it.
        self._saved = self._noted(final, iterations, began_s)

    def wrap(self, model: Model, **options: Any) -> Model:
        """The model on its device; data-parallel over the ranks when there are several.

        Args:
            model: the model, before the optimizer is made.
            options: passed to torch's DistributedDataParallel when there are several ranks.
        """
        return self._trial.wrap(model, **options)

    def loader(self, dataset: Any, *, global_batch_size: int, **options: Any) -> torch.utils.data.DataLoader[Any]:
        """A torch DataLoader of this rank's part of each global batch; see `rb_core.Trial.loader`.

        Args:
            dataset: a map-style data set.
            global_batch_size: samples of one step, over all ranks together.
            options: ``shuffle``, ``drop_last`` and anything else that DataLoader takes.
        """
        return self._trial.loader(dataset, global_batch_size=global_batch_size, **options)

    def _save_objects(self, iterations: int) -> None:
        if self._kept is None or iterations == self._saved_at:
            return
        began_s = time.perf_counter()
        path = self._kept.write(self.checkpoint_dir, iterations, Alone(), reported_in_stage=self._run.stage)
        if path is not None:
            self._saved = self._noted(path, iterations, began_s)
            self._tell_saved()

    def _noted(self, path: Path, iterations: int, began_s: float) -> Saved:
        self._saved_at, self._saved_s = iterations, time.monotonic()
        return Saved(
            iterations=iterations,
            checkpoint=str(path),
            size_bytes=checkpoint.size_bytes(path),
            save_s=time.perf_counter() - began_s,
        )

    def _tell_saved(self) -> None:
        if self._saved is not None:
            self._tell(self._saved)
            self._saved = None

    def _can_resume(self) -> None:
        self._tell(CanResume())

    def _tell(self, message: Message) -> None:
        if self._line is not None and self.rank == 0:
            self._line.send(message)


class _Silence:
    """A channel that nobody listens to."""

    def send(self, message: Message) -> None:
        """Tell nobody."""

    def ask(self, message: Message) -> Message:
        """Refuse: nobody answers."""
        raise ConnectionError("nobody listens")

    def stop_requested(self) -> bool:
        """Never."""
        return False


def _unattached(trial: BaseTrial) -> Session:
    """The session of a trial that no executor runs: one process that keeps nothing."""
    run = TrialRun(
        trial=getattr(trial, "number", 0),
        stage=0,
        config={},
        slots=(Slot(node="here", index=0),),
        from_iteration=0,
        to_iteration=_ENDLESS,
        max_iterations=_ENDLESS,
        checkpoint=None,
        storage=Path(),
        logs=Path(),
    )
    alone = Session(Trial(run, rank=0, channel=_Silence(), peers=Alone()), run)
    attach(trial, alone)
    return alone
