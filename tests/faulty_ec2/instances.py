"""Instances: what the shim knows of each, and what it tells others."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An instance at one moment.

    Attributes:
        id: its id.
        region: where it is.
        zone: its availability zone.
        type: instance type.
        market: `spot` or `on_demand`.
        state: `pending`, `running`, `shutting-down`, `terminated`, `stopped`.
        reason: code of the state reason; empty while none.
        launch_index: its place in its launch, from 0.
        token: client token of that launch.
        tags: its tags.
        user_data: as a text.
        private_address: its address in the VPC.
        visible: whether EC2's listings show it yet.
    """

    id: str
    region: str
    zone: str
    type: str
    market: str
    state: str
    reason: str
    launch_index: int
    token: str
    tags: Mapping[str, str]
    user_data: str
    private_address: str
    visible: bool


@dataclass(slots=True, kw_only=True)
class Record:
    """The shim's own book on an instance; times are the clock's.

    Attributes:
        made: moto's object.
        boots_s: when it gets running; None never.
        visible_s: when listings show it.
        doom: state reason with which it ends instead of getting running.
        ends_s: when it ends by itself, with `ends_why`.
        gone_s: when it will be terminated, after shutting down.
        vanishes_s: when the record of a terminated one disappears.
        runs: [begin, end) of each time it was running; end None while it is.
        reason: state reason.
        role: role of its profile; empty without.
        public: whether it has a public address.
        spot_request: id of its spot request; empty on demand.
        shown: whether listings show it yet.
        vanished: whether they have forgotten it.
    """

    made: Any
    region: str
    zone: str
    type: str
    market: str
    vcpus: int
    token: str
    launched_s: float
    visible_s: float
    boots_s: float | None
    doom: str = ""
    ends_s: float | None = None
    ends_why: str = ""
    gone_s: float | None = None
    vanishes_s: float | None = None
    runs: list[tuple[float, float | None]] = field(default_factory=list)
    reason: str = ""
    role: str = ""
    public: bool = False
    spot_request: str = ""
    shown: bool = False
    vanished: bool = False

    @property
    def id(self) -> str:
        """The instance's id."""
        return str(self.made.id)

    @property
    def state(self) -> str:
        """Its state."""
        return str(self.made._state.name)

    @property
    def pool(self) -> tuple[str, str, str]:
        """Type, zone and market."""
        return self.type, self.zone, self.market

    @property
    def user_data(self) -> bytes:
        """Its user data, decoded."""
        return base64.b64decode(str(self.made.user_data or ""))

    def turn(self, state: str, reason: str = "", message: str = "") -> None:
        """Set its state, and the reason where one is given."""
        self.made._state.name, self.made._state.code = state, CODES[state]
        if reason:
            self.reason = reason
            self.made.state_reason.code = reason
            self.made.state_reason.message = message or reason

    def stop_running(self, at_s: float) -> None:
        """Close the open span of running time."""
        if self.runs and self.runs[-1][1] is None:
            self.runs[-1] = (self.runs[-1][0], at_s)

    def view(self) -> Instance:
        """It, at this moment."""
        made = self.made
        return Instance(
            id=self.id,
            region=self.region,
            zone=self.zone,
            type=self.type,
            market=self.market,
            state=self.state,
            reason=self.reason,
            launch_index=made.ami_launch_index,
            token=self.token,
            tags={tag["key"]: tag["value"] for tag in made.get_tags()},
            user_data=self.user_data.decode("utf-8", "replace"),
            private_address=str(made.private_ip),
            visible=self.shown,
        )
