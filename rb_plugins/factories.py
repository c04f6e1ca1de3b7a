"""What the register hooks hand over: factories, called when their name is chosen and not before.

A factory imports what it needs when it is called, so that a plugin costs nothing while another is in use, and a
missing extra is an error of the one who asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rb_core.estate import Estate
from rb_core.hardware import Cloud, PriceBook
from rb_core.ports import Clock, Depot, Inbox, Launcher, Planner, Provider
from rb_core.target import Target


class ProviderFactory(Protocol):
    """Makes the provider of one run."""

    def __call__(self, *, cloud: Cloud, clock: Clock, inbox: Inbox) -> Provider:
        """A provider for `cloud` that puts its notices into `inbox`.

        Raises:
            InvalidInput: this cloud cannot be served, or an extra is missing; the message names it.
        """


class LauncherFactory(Protocol):
    """Makes the launcher of one run."""

    def __call__(self, *, target: Target, clock: Clock) -> Launcher:
        """A launcher that runs `target`; it starts nothing before it is entered.

        Raises:
            InvalidInput: an extra is missing; the message names it.
        """


class DepotFactory(Protocol):
    """Makes what keeps the checkpoints of one run."""

    def __call__(self, *, uri: str) -> Depot:
        """A depot below an address; it contacts nothing before it is used.

        Raises:
            InvalidInput: it is no address of such a depot, or an extra is missing; the message names it.
        """


EstateFactory = Callable[[], Estate]
"""Opens the estate of the account that this machine is set up for; contacts nothing. Raises `InvalidInput` when an
extra is missing; the message names it."""

PlannerFactory = Callable[[], Planner]
"""Makes a planner."""


class PriceBookFactory(Protocol):
    """Reads a price book."""

    def __call__(self, *, region: str = "", instance_types: Sequence[str] = ()) -> PriceBook:
        """The prices of a region. It may hold more than was asked for, and less: `PriceBook.offering` says what is not.

        Args:
            region: whose prices are wanted; empty for all that are known. A book that has to be asked for one region
                at a time takes that of its environment, or refuses.
            instance_types: names of the types that are wanted; empty for all.

        Raises:
            InvalidInput: there are no prices of that region, or an extra is missing; the message names it.
            RubberBandError: the prices cannot be had now, and what to do.
        """
