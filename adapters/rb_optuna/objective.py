"""The training function that a trial's ranks run: the user's objective, seen to its end."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import optuna
from optuna.trial import BaseTrial

from rb_core.training.peers import looks_like_lost_peer
from rb_core.trial import Trial
from rb_optuna.gate import Gate, Line, StageSuspended
from rb_optuna.messages import Attach, End, Facts, Finished
from rb_optuna.proxy import ProxyTrial, asked
from rb_optuna.session import Session, attach

Objective = Callable[[Any], Any]
"""What a user gives to `optimize`: called with a trial, returns its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankObjective:
    """``train(config, trial)`` for the launchers: the objective behind a proxy of its trial.

    Attributes:
        objective: the user's.
    """

    objective: Objective

    def __call__(self, config: dict[str, Any], trial: Trial) -> None:
        """Run the objective once, in one rank."""
        run = trial.own_loop()
        line: Line = trial.channel
        facts: Facts = asked(line, Attach())
        gate = Gate(line, run, rank=trial.rank, first_step=facts.first_step, last_step=facts.last_step)
        proxy = ProxyTrial(line, gate, facts, rank=trial.rank)
        finished = followed(self.objective, proxy, Session(trial, run, gate, line), by_value=True)
        if trial.world_size == 1:
            # Whatever connection was lost, it was none to another rank.
            finished = replace(finished, lost_peer=False)
        line.send(finished)


def followed(objective: Objective, trial: BaseTrial, session: Session, *, by_value: bool) -> Finished:
    """Call an objective and say how it ended.

    Args:
        objective: the user's.
        trial: what it is called with.
        session: what `rb_optuna.session` answers in it.
        by_value: whether value and error have to reach another process.
    """
    attach(trial, session)
    try:
        value = objective(trial)
    except StageSuspended:
        return Finished(end=End.SUSPENDED)
    except optuna.TrialPruned as pruned:
        return Finished(end=End.PRUNED, words=str(pruned))
    except Exception as error:
        return _failed(error) if by_value else Finished(end=End.FAILED, error=error, words=repr(error))
    return Finished(end=End.VALUE, value=_sendable(value) if by_value else value)


def _failed(error: Exception) -> Finished:
    trace = error.__traceback__
    text = "".join(traceback.format_exception(type(error), error, None if trace is None else trace.tb_next))
    try:
        pickled = cloudpickle.dumps(error)
        cloudpickle.loads(pickled)
    except Exception:
        pickled = b""
    return Finished(
        end=End.FAILED, pickled=pickled, words=repr(error), traceback=text, lost_peer=looks_like_lost_peer(error)
    )


def _sendable(value: Any) -> Any:
    """The value, or what stands for it in another process: a number where it is one, else words."""
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_sendable(part) for part in value]
    try:
        return float(value)
    except (TypeError, ValueError):
        return repr(value)
