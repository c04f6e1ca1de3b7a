"""The process that runs the engine, as something that can be killed at any event.

SIGKILL runs no ``finally``. Here it is an exception out of the log, and from then on every port of that process
raises it again, so that an engine that unwinds can do nothing more: neither write nor release nor let time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rb_core.hardware import Cloud, InstanceType
from rb_core.ports import Clock, Inbox, Notice, Slot, Timer, TrialHandle, TrialRun
from rb_core.sim.launcher import SimLauncher
from rb_core.sim.provider import SimProvider


class DriverKilled(BaseException):
    """The process is gone."""


class Driver:
    """One process. Its ports are to be used in place of the world's own.

    Attributes:
        alive: whether it can still do anything.
    """

    def __init__(self) -> None:
        self.alive = True
        self._launcher: SimLauncher | None = None

    def started(self, launcher: SimLauncher) -> None:
        """Let what `launcher` starts vanish with this process."""
        self._launcher = launcher

    def kill(self) -> None:
        """End it and what it started. Raises `DriverKilled`, now and from every port of it."""
        self.alive = False
        if self._launcher is not None:
            self._launcher.vanish()
        raise DriverKilled

    def check(self) -> None:
        """Raise `DriverKilled` unless it is alive."""
        if not self.alive:
            raise DriverKilled


class DrivenClock:
    """The clock as one process sees it: its timers end with it."""

    def __init__(self, clock: Clock, driver: Driver) -> None:
        self._clock = clock
        self._driver = driver

    @property
    def origin(self) -> str:
        """As the clock's."""
        return self._clock.origin

    def now(self) -> float:
        """As the clock's."""
        return self._clock.now()

    def utc(self) -> datetime:
        """As the clock's."""
        return self._clock.utc()

    def call_at(self, when_s: float, action: Callable[[], None]) -> Timer:
        """Arrange an action that is not done once the process is gone."""

        def act() -> None:
            if self._driver.alive:
                action()

        return self._clock.call_at(when_s, act)

    def inbox(self) -> Inbox:
        """An inbox of this process."""
        return DrivenInbox(self._clock.inbox(), self._driver)


class DrivenInbox:
    """An inbox that nobody reads once the process is gone."""

    def __init__(self, inbox: Inbox, driver: Driver) -> None:
        self.put: Callable[[Notice], None] = inbox.put
        self._inbox = inbox
        self._driver = driver

    def get(self, until_s: float | None = None) -> Notice | None:
        """As the inbox's; a dead process lets no time pass."""
        self._driver.check()
        return self._inbox.get(until_s)


class DrivenProvider:
    """A provider that a dead process cannot call."""

    name = SimProvider.name

    def __init__(self, provider: SimProvider, driver: Driver) -> None:
        self._provider = provider
        self._driver = driver

    def check(self, cloud: Cloud) -> None:
        """As the provider's."""
        self._provider.check(cloud)

    def launch(self, names: Sequence[str], instance_type: InstanceType, *, run: str) -> None:
        """As the provider's."""
        self._driver.check()
        self._provider.launch(names, instance_type, run=run)

    def adopt(self, nodes: Mapping[str, InstanceType], *, run: str) -> None:
        """As the provider's."""
        self._driver.check()
        self._provider.adopt(nodes, run=run)

    def slots(self, name: str) -> Sequence[Slot]:
        """As the provider's."""
        self._driver.check()
        return self._provider.slots(name)

    def release(self, names: Sequence[str]) -> None:
        """As the provider's."""
        self._driver.check()
        self._provider.release(names)

    def owned(self, run: str) -> Sequence[str]:
        """As the provider's."""
        self._driver.check()
        return self._provider.owned(run)

    def close(self) -> None:
        """As the provider's."""
        self._provider.close()


class DrivenLauncher:
    """A launcher that starts nothing for a dead process."""

    name = SimLauncher.name

    def __init__(self, launcher: SimLauncher, driver: Driver) -> None:
        self._launcher = launcher
        self._driver = driver
        driver.started(launcher)

    def __enter__(self) -> DrivenLauncher:
        return self

    def __exit__(self, *exc: object) -> None:
        self._launcher.__exit__(*exc)

    def start(self, run: TrialRun, inbox: Inbox) -> TrialHandle:
        """As the launcher's."""
        self._driver.check()
        return self._launcher.start(run, inbox)
