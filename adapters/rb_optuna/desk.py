"""Where everything is asked of the study: one desk, in one thread, for all trials of one `optimize`."""

from __future__ import annotations

import gc
import logging
import math
import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import cloudpickle
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from rb_core.trial import Message
from rb_optuna import _compat
from rb_optuna.heartbeat import Heartbeat
from rb_optuna.messages import Answer, Attach, End, Facts, Finished, Report, SetAttribute, StopStudy, Suggest
from rb_plugins import interrupts

Callback = Callable[[Study, FrozenTrial], None]
Attributes = Mapping[str, Any]

_logger = logging.getLogger("optuna.rubberband")


class RemoteTraceback(Exception):
    """The traceback of an objective that failed in a process of its own; the cause of the error that is raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(slots=True, kw_only=True)
class Seat:
    """One trial of the study, and the number that it has in the run.

    Attributes:
        number: in the run.
        trial: the one handle of it.
        values: what it has reported, by step.
        earlier: steps that were reported before its present start.
        constrained: constraints that were set before its present start.
        over: whether the study has been told how it ended.
    """

    number: int
    trial: Trial
    values: dict[int, float] = field(default_factory=dict)
    earlier: frozenset[int] = frozenset()
    constrained: frozenset[str] = frozenset()
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user of `optimize` wants of it, in the words of `Study.optimize`.

    Attributes:
        catch: exceptions that fail a trial without ending the study.
        callbacks: called after each trial.
        timeout: no trial begins so many seconds after the first one.
        gc_after_trial: whether garbage is collected after each trial.
        search_space: what is sampled when a trial begins; None to sample as the objective asks.
        reseed: whether the sampler's generator is seeded anew first.
    """

    catch: tuple[type[Exception], ...] = ()
    callbacks: Sequence[Callback] = ()
    timeout: float | None = None
    gc_after_trial: bool = False
    search_space: Mapping[str, BaseDistribution] | None = None
    reseed: bool = False


class Desk:
    """Asks, answers and tells on behalf of trials, wherever they run.

    Attributes:
        begun: trials of the study that have begun here.
    """

    def __init__(self, study: Study, wishes: Wishes, heartbeat: Heartbeat, bar: _compat.ProgressBar) -> None:
        """A desk at which nobody has sat down.

        Args:
            study: the study.
            wishes: what is wanted.
            heartbeat: keeps trials alive.
            bar: shows how far the study is.
        """
        self.begun = 0
        self._study = study
        self._wishes = wishes
        self._heartbeat = heartbeat
        self._bar = bar
        self._seats: dict[int, Seat] = {}
        self._attributes: Callable[[int], Attributes] = lambda number: {}
        self._mark: Callable[[Seat], None] = lambda seat: None
        self._first_s: float | None = None

    def begin_round(
        self,
        *,
        attributes: Callable[[int], Attributes] | None = None,
        mark: Callable[[Seat], None] | None = None,
        seats: Iterable[Seat] = (),
    ) -> None:
        """The next run begins; its trials are numbered anew.

        Args:
            attributes: user attributes of a trial of the run that has ended.
            mark: told of each trial that begins.
            seats: trials that have begun already, in a run that is resumed.
        """
        self._seats = {seat.number: seat for seat in seats}
        self._attributes = attributes or (lambda number: {})
        self._mark = mark or (lambda seat: None)
        for seat in self._seats.values():
            if not seat.over:
                self._heartbeat.begin(seat.trial)

    @property
    def stopped(self) -> bool:
        """Whether no further trial is to begin."""
        timeout = self._wishes.timeout
        late = timeout is not None and self._first_s is not None and self._elapsed_s >= timeout
        return _compat.is_stopped(self._study) or late

    def open(self, number: int) -> bool:
        """Let a trial of the run begin, unless it has already; False when none is to begin any more."""
        if number in self._seats:
            return True
        if self._first_s is None:
            self._first_s = time.monotonic()
            if self._wishes.reseed:
                self._study.sampler.reseed_rng()
        if self.stopped:
            return False
        _compat.fail_stale_trials(self._study)
        space = self._wishes.search_space
        trial = self._study.ask(dict(space)) if space is not None else self._study.ask()
        self.begun += 1
        seat = self._seats[number] = Seat(number=number, trial=trial)
        self._heartbeat.begin(trial)
        self._mark(seat)
        return True

    def trial(self, number: int) -> Trial:
        """The handle of a trial that has begun."""
        return self._seats[number].trial

    def is_over(self, number: int) -> bool:
        """Whether the study has been told how a trial ended."""
        return self._seats[number].over

    def start_anew(self, number: int) -> None:
        """The trial's objective is called again: what it reports or sets once more was so before."""
        seat = self._seats[number]
        seat.earlier = frozenset(seat.values)
        seat.constrained = frozenset(_constraints(seat.trial))

    def facts(self, number: int) -> Facts:
        """What a trial's proxy has to know."""
        seat, study = self._seats[number], self._study
        frozen = _compat.read_trial(study, seat.trial)
        return Facts(
            number=frozen.number,
            params=frozen.params,
            distributions=frozen.distributions,
            user_attrs=frozen.user_attrs,
            system_attrs=frozen.system_attrs,
            constraints=_constraints(frozen),
            first_step=min(seat.values, default=None),
            last_step=max(seat.values, default=None),
            datetime_start=frozen.datetime_start,
            study_name=study.study_name,
            directions=tuple(study.directions),
        )

    def answer(self, number: int, rank: int, message: Message) -> Message | None:
        """What a rank is answered; None for what needs no answer. An error of Optuna's is the objective's own."""
        try:
            match message:
                case Attach():
                    return Answer(value=self.facts(number))
                case Suggest():
                    return Answer(value=_suggest(self.trial(number), message.name, message.distribution))
                case SetAttribute():
                    self._set(number, message)
                    return Answer()
                case StopStudy():
                    self._study.stop()
        except Exception as error:
            return Answer(error=_portable(error))
        return None

    def report(self, number: int, report: Report) -> float | None:
        """Take a report; the value that counts, which is the first of its step, or None of a trial that is over."""
        seat = self._seats[number]
        if not (report.stored or report.step in seat.earlier or seat.over):
            try:
                seat.trial.report(report.value, report.step)
            except RuntimeError:  # `UpdateFinishedTrialError` is one, where Optuna has it: not in 4.0
                if not self._ended_elsewhere(seat):
                    raise
        return None if seat.over else seat.values.setdefault(report.step, report.value)

    def reports(self, number: int) -> Mapping[int, float]:
        """What a trial has reported so far, by step."""
        return self._seats[number].values

    def end(self, number: int, finished: Finished) -> None:
        """Tell the study how a trial ended.

        Raises:
            Exception: what the objective raised, unless it is to be caught; what the sampler or a callback raises.
        """
        seat = self._seats[number]
        if seat.over or self._ended_elsewhere(seat):
            return
        if finished.end is End.PRUNED:
            self._tell(seat, TrialState.PRUNED, log=f"Trial {seat.trial.number} pruned. {finished.words}")
        elif finished.end is End.FAILED:
            error = _error(finished)
            self._log_failure(seat, finished.words, finished.value, error)
            caught = isinstance(error, self._wishes.catch)
            self._tell(seat, TrialState.FAIL, follow_up=caught)
            if not caught:
                raise error
        else:
            problem = _infeasible(self._study, finished.value)
            if problem:
                self._log_failure(seat, problem, finished.value)
                self._tell(seat, TrialState.FAIL)
            else:
                self._tell(seat, TrialState.COMPLETE, values=finished.value)

    def drop(self, number: int) -> None:
        """A trial was dropped at a rung while its objective was suspended."""
        seat = self._seats.get(number)
        if seat is not None and not seat.over:
            self._tell(seat, TrialState.PRUNED, log=f"Trial {seat.trial.number} pruned. ")

    def lose(self, number: int, cause: str) -> None:
        """A trial's processes were lost too often."""
        seat = self._seats.get(number)
        if seat is not None and not seat.over:
            self._log_failure(seat, cause, None)
            self._tell(seat, TrialState.FAIL)

    def close(self, state: TrialState) -> None:
        """The run has ended: tell the study of the trials that have not, without calling anybody back."""
        for seat in self._seats.values():
            if not seat.over:
                try:
                    self._tell(seat, state, follow_up=False)
                except Exception as error:
                    _logger.warning("Trial %d could not be ended: %r", seat.trial.number, error)

    @property
    def _elapsed_s(self) -> float:
        return 0.0 if self._first_s is None else time.monotonic() - self._first_s

    def _set(self, number: int, message: SetAttribute) -> None:
        trial = self.trial(number)
        if message.kind == "set_system_attr":
            _compat.set_trial_system_attr(self._study, trial, message.key, message.value)
        elif not (message.kind == "set_constraint" and message.key in self._seats[number].constrained):
            getattr(trial, message.kind)(message.key, message.value)

    def _tell(
        self, seat: Seat, state: TrialState, *, values: Any = None, log: str = "", follow_up: bool = True
    ) -> None:
        """Tell the study and say so; then call back, if anybody is to be."""
        if self._ended_elsewhere(seat):
            return
        self._over(seat)
        try:
            for key, value in self._attributes(seat.number).items():
                seat.trial.set_user_attr(key, value)
            self._study.tell(seat.trial, values=values, state=state)
        finally:
            stored = _compat.read_trial(self._study, seat.trial)
            if stored.state is TrialState.COMPLETE and state is TrialState.COMPLETE:
                _compat.log_completed(self._study, stored)
            elif log:
                _optimize_logger.info(log)
        if self._wishes.gc_after_trial:
            gc.collect()
        if follow_up:
            for callback in self._wishes.callbacks:
                with interrupts.heeded():
                    callback(self._study, deepcopy(stored))
            self._bar.update(self._elapsed_s, self._study)

    def _ended_elsewhere(self, seat: Seat) -> bool:
        """Whether somebody else has told the study how a trial ended, as heartbeats let others do."""
        if not _compat.read_trial(self._study, seat.trial).state.is_finished():
            return False
        _logger.warning("Trial %d was ended by another process, so what it comes to is lost.", seat.trial.number)
        self._over(seat)
        return True

    def _over(self, seat: Seat) -> None:
        seat.over = True
        self._heartbeat.end(seat.trial)

    def _log_failure(self, seat: Seat, words: str, value: object, error: Exception | None = None) -> None:
        trace: TracebackType | None = None if error is None else error.__traceback__
        number, params = seat.trial.number, seat.trial.params
        _optimize_logger.warning(
            f"Trial {number} failed with parameters: {params} because of the following error: {words}.",
            exc_info=None if error is None else (type(error), error, trace),
        )
        _optimize_logger.warning(f"Trial {number} failed with value {value!r}.")


_optimize_logger = logging.getLogger("optuna.study._optimize")
"""Says what `Study.optimize` says, where it says it."""


def _constraints(trial: Trial | FrozenTrial) -> Mapping[str, float]:
    """Constraints that are set; trials have them since Optuna 5.0."""
    constraints: Mapping[str, float] = getattr(trial, "constraints", {})
    return constraints


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> Any:
    match distribution:
        case FloatDistribution():
            low, high = distribution.low, distribution.high
            return trial.suggest_float(name, low, high, step=distribution.step, log=distribution.log)
        case IntDistribution():
            low, high = distribution.low, distribution.high
            return trial.suggest_int(name, low, high, step=distribution.step, log=distribution.log)
        case CategoricalDistribution():
            return trial.suggest_categorical(name, distribution.choices)
    raise TypeError(f"parameter {name!r} has an unknown distribution: {distribution!r}")


def _portable(error: Exception) -> Exception:
    """The error, or what stands for it in another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _error(finished: Finished) -> Exception:
    """What the objective raised, with its traceback."""
    if finished.error is not None:
        return finished.error
    try:
        error: Exception = cloudpickle.loads(finished.pickled)
    except Exception:
        error = RuntimeError(finished.words)
    error.__cause__ = RemoteTraceback(finished.traceback)
    return error


def _infeasible(study: Study, value: object) -> str:
    """Why an objective's value cannot be one of a complete trial; empty when it can."""
    values = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    for number in values:
        try:
            feasible = not math.isnan(number)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return f"The value {number!r} could not be cast to float"
        if not feasible:
            return f"The value {number} is not acceptable"
    if len(values) != len(study.directions):
        return (
            f"The number of the values {len(values)} did not match the number of the objectives {len(study.directions)}"
        )
    return ""
