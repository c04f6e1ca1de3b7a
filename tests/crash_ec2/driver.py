"""A process that dies at one of its steps, and the log and the clients that it takes them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rb_core.eventlog import line, parse_log
from rb_core.events import Event
from rb_core.providers.ec2.clients import Clients
from rb_core.sim.driver import Driver, DriverKilled

CHANGES = ("run_", "terminate_", "create_", "delete_", "put_", "modify_", "authorize_", "cancel_")
"""How the methods begin that change something."""


class MortalDriver(Driver):
    """Killed at the step of a number; never, where that is None.

    Attributes:
        trace: the steps that it has taken.
    """

    def __init__(self, fatal: int | None = None) -> None:
        super().__init__()
        self.trace: list[str] = []
        self._fatal = fatal

    def step(self, what: str) -> None:
        """Take a step, or die of it."""
        self.check()
        self.trace.append(what)
        if len(self.trace) - 1 == self._fatal:
            self.kill()


class Disk:
    """What is left of a log when its process is dead."""

    def __init__(self) -> None:
        self.text = bytearray()

    def reopen(self) -> list[Event]:
        """All events, as another process finds them; a torn last line is cut off."""
        del self.text[self.text.rfind(b"\n") + 1 :]
        return list(parse_log(bytes(self.text), "log").events)


class MortalLog:
    """A log on that disk."""

    def __init__(self, disk: Disk, driver: MortalDriver) -> None:
        self._disk, self._driver = disk, driver

    def append(self, *events: Event) -> None:
        """Write the events; the process may die before, within and after."""
        if not events:
            return
        name, text = type(events[0]).__name__, "".join(map(line, events)).encode()
        self._driver.step(f"before {name} is written")
        try:
            self._driver.step(f"while {name} is written")
        except DriverKilled:
            self._disk.text += text[: len(text) // 2]
            raise
        self._disk.text += text
        self._driver.step(f"after {name} is written")

    def close(self) -> None:
        """Nothing to let go of."""


class MortalClients(Clients):
    """Clients of one process; the connections are those of a test."""

    def __init__(self, clients: Clients, driver: MortalDriver) -> None:
        super().__init__(clients.region, session=clients.session)
        self._shared, self._driver = clients, driver

    def close(self) -> None:
        """The next process uses the connections."""

    def _client(self, key: str, service: str, config: Any) -> Any:
        return _Mortal(self._shared._client(key, service, self._shared._launch), self._driver)


class _Mortal:
    def __init__(self, client: Any, driver: MortalDriver) -> None:
        self._client, self._driver = client, driver

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*args: Any, **named: Any) -> Any:
            changes = name.startswith(CHANGES)
            self._driver.check()
            if changes:
                self._driver.step(f"before {name}")
            try:
                return method(*args, **named)
            finally:
                if changes:
                    self._driver.step(f"after {name}")

        return call
