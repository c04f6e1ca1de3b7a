"""Rounds whose process was killed: how they are known by the study, and how their trials are found again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optuna.study import Study
from optuna.trial import Trial

from rb_core.errors import UnusableLog
from rb_core.eventlog import read_log
from rb_core.events import Event, RunEnded, RunEnding
from rb_core.lease import living_holder
from rb_core.ports import Clock
from rb_core.state import RunState, TrialPhase, fold
from rb_optuna import _compat
from rb_optuna.desk import Desk, Seat
from rb_plugins.logged import Logged, logged
from rb_plugins.rundir import RunDirectory

_RUN = "rubberband:run:"
"""With the run's id: attribute of a study that holds the run's directory while the run goes on."""

_TRIAL = "rubberband:trial"
"""Attribute of a trial that holds the run's id and the trial's number in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A round that goes on.

    Attributes:
        directory: of its run.
        history: all events of its log.
        told: what the log says that was asked for.
        state: after all of its events.
        seats: its trials that have begun.
    """

    directory: RunDirectory
    history: tuple[Event, ...]
    told: Logged
    state: RunState
    seats: tuple[Seat, ...]

    def catch_up(self, desk: Desk) -> None:
        """Tell the study of trials that the run had done with, where its process was killed before it did."""
        for number, trial in self.state.trials.items():
            if trial.phase is TrialPhase.STOPPED:
                desk.drop(number)
            elif trial.phase is TrialPhase.FAILED:
                desk.lose(number, trial.cause)


def announce(study: Study, directory: RunDirectory) -> None:
    """Let the study know of a run before it begins. One in memory ends with this process, and need not know."""
    if not _compat.is_in_memory(study):
        _compat.set_study_system_attr(study, _RUN + directory.run, str(directory.path))


def conclude(study: Study, directory: RunDirectory) -> None:
    """The run has come to an end, whichever."""
    if not _compat.is_in_memory(study):
        _compat.set_study_system_attr(study, _RUN + directory.run, None)


def mark(study: Study, directory: RunDirectory, seat: Seat) -> None:
    """Let a trial know whose it is."""
    if not _compat.is_in_memory(study):
        _compat.set_trial_system_attr(study, seat.trial, _TRIAL, f"{directory.run}:{seat.number}")


def interrupted(study: Study, clock: Clock) -> Iterator[Adopted]:
    """The rounds of this study that were killed on this machine, and that nobody is at work on."""
    if _compat.is_in_memory(study):
        return
    for key, place in _compat.study_system_attrs(study).items():
        if not key.startswith(_RUN) or not place:
            continue
        directory = RunDirectory(Path(place))
        # One that has not begun may be about to, in another process.
        if not directory.began or living_holder(directory.lease, clock) is not None:
            continue
        adopted = _adopted(study, directory)
        if adopted is None:
            conclude(study, directory)
        else:
            yield adopted


def _adopted(study: Study, directory: RunDirectory) -> Adopted | None:
    """The round of a run directory; None when it has ended, or cannot go on."""
    try:
        history = read_log(directory.events).events
        if not history or (isinstance(history[-1], RunEnded) and history[-1].ending is RunEnding.DONE):
            return None
        return Adopted(
            directory=directory,
            history=history,
            told=logged(history, directory),
            state=fold(history),
            seats=tuple(_seats(study, directory)),
        )
    except (UnusableLog, KeyError, IndexError):
        return None


def _seats(study: Study, directory: RunDirectory) -> Iterator[Seat]:
    for trial in study.get_trials(deepcopy=False):
        run, _, number = str(trial.system_attrs.get(_TRIAL, "")).rpartition(":")
        if run == directory.run:
            yield Seat(
                number=int(number),
                trial=Trial(study, _compat.trial_id(trial)),
                values=dict(trial.intermediate_values),
                over=trial.state.is_finished(),
            )
