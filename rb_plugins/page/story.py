"""What a page tells, as values: no markup, and nothing of where it came from. Times count from the first request."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rb_core.report import Table
from rb_plugins.page.scaling import Scaling


class Source(StrEnum):
    """What the page is of."""

    RUN = "run"
    """A run that took place, or goes on."""
    REHEARSAL = "rehearsal"
    """The engine on a simulated cloud."""
    PLAN = "plan"
    """A plan, every duration at its mean; nothing has run."""


class Doing(StrEnum):
    """What a node or a trial does in a span of time."""

    LAUNCHING = "launching"
    """A node is requested and does not run yet; not billed."""
    STARTING = "starting"
    """A node starts up, or a trial's processes do."""
    TRAINING = "training"
    """A trial iterates."""
    SAVING = "saving"
    """A trial writes a checkpoint, or ends its stage."""
    IDLE = "idle"
    """A node holds no trial; a trial waits for a place or at a barrier."""


class End(StrEnum):
    """What became of a trial or a node."""

    FINISHED = "finished"
    """Ran to the end."""
    STOPPED = "stopped"
    """Dropped at a barrier."""
    FAILED = "failed"
    """Failed for good."""
    LEFT = "left"
    """Ended by itself."""
    RELEASED = "released"
    """Given back."""
    LOST = "lost"
    """Taken away, or never came."""
    OPEN = "open"
    """Not over yet."""


class Sort(StrEnum):
    """What sort of thing went otherwise than planned."""

    FAULT = "fault"
    """Something failed, was taken away or was refused."""
    CHANGE = "change of the plan"
    """The rest was planned anew."""
    BREAK = "end before the work was done"
    """The run ended with work left."""
    RESUMED = "resumption"
    """Another process went on with the run."""
    WARNING = "warning"
    """Something to know that stops nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """`doing` from `start_s` to `end_s`; `share` is how much of a node's slots do it."""

    doing: Doing
    start_s: float
    end_s: float
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One node or trial in time.

    Attributes:
        name: what it is called.
        detail: what else is to be known of it, in words.
        spans: in the order of their beginnings.
        end: what became of it.
        end_s: when.
        reason: why, where that is known.
        lane: of the chain that it belongs to, where chains run side by side; else 0.
    """

    name: str
    detail: str
    spans: tuple[Span, ...]
    end: End
    end_s: float
    reason: str = ""
    lane: int = 0

    def total_s(self, doing: Doing) -> float:
        """Seconds of it, by their shares."""
        return sum((span.end_s - span.start_s) * span.share for span in self.spans if span.doing is doing)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpan:
    """A stage in time: its name, its chain, what runs in it, and its barriers."""

    name: str
    chain: int
    lane: int
    detail: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Scores of one trial: (iterations, score) that are numbers, and where and how it ended."""

    trial: int
    points: tuple[tuple[int, float], ...]
    end: End


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a run had cost at `t_s`."""

    t_s: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The forecast at `t_s`: 5th, 50th and 95th percentile of the bill in usd."""

    t_s: float
    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of the bill by what the money did."""

    name: str
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that went otherwise than planned.

    Attributes:
        t_s: when.
        sort: what sort of thing.
        kind: in a word or two.
        subject: of what; empty for the run.
        reason: why, and what was done.
    """

    t_s: float
    sort: Sort
    kind: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that a page tells.

    Attributes:
        source: what it is of.
        name: of the run or the problem file.
        state: how it ended, or where it stands.
        notice: what is to be known before anything else; empty where there is nothing.
        headline: figures at the top: name, value, remark.
        metric: name of the score.
        mode: ``max`` or ``min``.
        end_s: where the time axis ends.
        limit_s: the deadline, None without one.
        limit_usd: the budget, None without one.
        stages: in time.
        nodes: in the order of their requests.
        trials: those that went the furthest first.
        curves: in the same order; none of a plan.
        spent: what it had cost, over time.
        forecast: what was expected of that.
        shares: the bill by what the money did.
        notes: what went otherwise, in order.
        tables: figures beside the charts, by the name of the section that they belong to.
        repeat: what is needed for repeating it: name and value.
        texts: files that are needed for that: name and what they hold.
        profile: how the training function scales.
    """

    source: Source
    name: str
    state: str
    headline: tuple[tuple[str, str, str], ...]
    metric: str
    mode: str
    end_s: float
    limit_s: float | None = None
    limit_usd: float | None = None
    stages: tuple[StageSpan, ...] = ()
    nodes: tuple[Row, ...] = ()
    trials: tuple[Row, ...] = ()
    curves: tuple[Curve, ...] = ()
    spent: tuple[Line, ...] = ()
    forecast: tuple[Band, ...] = ()
    shares: tuple[Share, ...] = ()
    notes: tuple[Note, ...] = ()
    tables: dict[str, tuple[Table, ...]] = field(default_factory=dict)
    repeat: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    notice: str = ""
    profile: Scaling | None = None
