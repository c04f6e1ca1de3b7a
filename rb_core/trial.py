"""What the user's training function sees of its trial, and the messages between a trial's ranks and the engine."""

from __future__ import annotations

from dataclasses import dataclass


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
