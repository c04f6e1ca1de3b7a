"""Every error that the product raises on purpose: one base, noun-phrase names, the data as attributes.

A message says what is wrong, the limit it broke and, last and after a semicolon, the remedy; a class may have one for
messages that cannot. `exit_status` is what `rb-tune` ends with
when the error reaches the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import ClassVar


class RubberBandError(Exception):
    """Base of all errors raised on purpose."""

    exit_status: ClassVar[int] = 1
    remedy: ClassVar[str] = ""
    """What to do next where the message does not say it."""

    @property
    def advice(self) -> str:
        """The remedy of the class where the last line of the message names none; else empty."""
        last = str(self).rstrip().rpartition("\n")[2]
        return "" if "; " in last or "must " in last else self.remedy


class InvalidInput(RubberBandError, ValueError):
    """A value that a person or a file gave is out of its limits.

    Attributes:
        key: path of the offending value, such as ``experiment.stages[2].trials``; may be empty.
        problem: the limit and what was given instead.
    """

    exit_status: ClassVar[int] = 2

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}" if key else problem)
        self.key = key
        self.problem = problem

    def under(self, parent: str) -> InvalidInput:
        """The same error seen from one level up: ``trials`` under ``stages[2]`` is ``stages[2].trials``."""
        if not self.key:
            return InvalidInput(parent, self.problem)
        joint = "" if self.key.startswith("[") or not parent else "."
        return InvalidInput(f"{parent}{joint}{self.key}", self.problem)

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, str]]:
        return (InvalidInput, (self.key, self.problem))


class NoFeasiblePlan(RubberBandError):
    """No allocation meets the objective.

    Attributes:
        limit: what blocks it, in words.
        nearest: JSON-ready description of the fastest (or cheapest) plan that exists, or None.
    """

    exit_status: ClassVar[int] = 3

    def __init__(self, message: str, *, limit: str, nearest: object = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.nearest = nearest


class UnreadablePrices(RubberBandError):
    """Prices cannot be had now; the message says why and what to do."""


class PlanVeto(RubberBandError):
    """A plugin refused the plan before anything was rented.

    Attributes:
        plugin: who refused.
        reason: why, in the plugin's words.
    """

    exit_status: ClassVar[int] = 4
    remedy: ClassVar[str] = "change the plan or what it is to keep to, or block the plugin with RB_BLOCK_PLUGINS"

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f"plugin {plugin} vetoed the plan: {reason}")
        self.plugin = plugin
        self.reason = reason


class BudgetExceeded(RubberBandError):
    """Going on would spend more than the hard limit ``max_usd``.

    Attributes:
        max_usd: the limit.
        needed_usd: what the next step would bring the bill to.
    """

    exit_status: ClassVar[int] = 4

    def __init__(self, *, max_usd: float, needed_usd: float, step: str) -> None:
        super().__init__(
            f"{step} could bring the bill to {needed_usd:.4f} usd, above max_usd {max_usd:.4f}; "
            "raise max_usd or relax the deadline"
        )
        self.max_usd = max_usd
        self.needed_usd = needed_usd


class FailureKind(StrEnum):
    """In which way a trial ended badly, which decides whether it is worth another start."""

    RAISED = "raised"
    """The training function, or what it was given, is at fault: it would end so again."""
    DIED = "died"
    """A process was killed or vanished, without a word of its own: so it is when its node is lost, too."""
    HUNG = "hung"
    """It made no progress for too long."""
    CHECKPOINT = "checkpoint"
    """What it was to go on from cannot be read."""
    UNSTARTED = "unstarted"
    """No process of it could be started."""
    STORE = "store"
    """Where checkpoints are kept refused it or gave no answer: no trial is at fault."""


class TrialFailure(RubberBandError):
    """A trial's function, or one of its ranks, ended badly.

    Attributes:
        trial: number of the trial.
        rank: the rank that failed first.
        cause: one line, such as ``ValueError: boom`` or ``killed by SIGKILL``.
        kind: in which way it ended.
        traceback: the rank's own traceback, empty when it left none.
        output_tail: the last lines that the rank printed.
    """

    remedy: ClassVar[str] = (
        "mend what the trial met with; a run whose code stays as it is goes on with `rb-tune run --resume RUN`, one "
        "whose code changes is started anew"
    )

    @property
    def advice(self) -> str:
        """Always the class's: the last line is the trial's own."""
        return self.remedy

    def __init__(
        self,
        *,
        trial: int,
        rank: int,
        cause: str,
        kind: FailureKind = FailureKind.RAISED,
        traceback: str = "",
        output_tail: Sequence[str] = (),
    ) -> None:
        detail = f"\n{traceback.rstrip()}" if traceback else ""
        tail = "\nlast output of this rank:\n  " + "\n  ".join(output_tail) if output_tail else ""
        super().__init__(f"trial {trial}, rank {rank} failed: {cause}{detail}{tail}")
        self.trial = trial
        self.rank = rank
        self.cause = cause
        self.kind = kind
        self.traceback = traceback
        self.output_tail = tuple(output_tail)

    def __reduce__(self) -> tuple[partial[TrialFailure], tuple[()]]:
        data = {name: getattr(self, name) for name in ("trial", "rank", "cause", "kind", "traceback", "output_tail")}
        return (partial(type(self), **data), ())


class TrialMisuse(RubberBandError):
    """The training function uses its trial against the contract; the message says how to do it right."""


class LaunchFailure(RubberBandError):
    """Trial processes, or a node, could not be started at all."""

    remedy: ClassVar[str] = "see what `rb-tune doctor` says of this machine, and go on with `rb-tune run --resume RUN`"


class NoAnswer(RubberBandError):
    """A provider did not say whether it acted. Every call can be repeated, so that is the remedy."""

    remedy: ClassVar[str] = "try the same again in a moment"


class LeakedNodes(RubberBandError):
    """Nodes that belong to a run are still held after everything was given back.

    Attributes:
        nodes: their names.
    """

    def __init__(self, nodes: Sequence[str], remedy: str) -> None:
        super().__init__(f"{len(nodes)} node(s) could not be given back: {', '.join(nodes)}; {remedy}")
        self.nodes = tuple(nodes)


class UnusableCheckpoint(RubberBandError):
    """A checkpoint could not be written, or not be read back safely."""

    remedy: ClassVar[str] = "look at the folder or store of the checkpoints, and go on with `rb-tune run --resume RUN`"


class DamagedCheckpoint(UnusableCheckpoint):
    """A checkpoint is missing, cut short or altered: nothing can go on from it, whatever the function does."""


class StoreFailure(UnusableCheckpoint):
    """The store that keeps checkpoints refuses, or gives no answer: no checkpoint is at fault, and no trial."""


class UnusableLog(RubberBandError):
    """An event log could not be written, or holds what this version cannot read."""

    remedy: ClassVar[str] = "look at the run's directory, and at its disk; `rb-tune doctor` says where runs are kept"


class UnusableProfile(RubberBandError):
    """Profiling ended without figures that a plan can stand on."""

    remedy: ClassVar[str] = "give it more time (budget_s), or a function that can be measured"


class PluginConflict(RubberBandError):
    """Two plugins claim one name, or a plugin answers a hook against its contract."""

    exit_status: ClassVar[int] = 2
    remedy: ClassVar[str] = "mend the plugin, or block it with RB_BLOCK_PLUGINS"


class UnstoppedRun(RubberBandError):
    """A run that was told to end has not done so in time; it still may."""


class RunInterrupted(RubberBandError):
    """The run was stopped by its user; every node has been given back."""

    exit_status: ClassVar[int] = 130
    remedy: ClassVar[str] = "go on with it: `rb-tune run --resume RUN`"
