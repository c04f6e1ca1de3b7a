"""What a rented node has besides its machine, and where it may stand, as the provider's settings say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rb_core.check import non_negative
from rb_core.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """Disk, addresses and zones of the nodes of a cloud.

    Attributes:
        disk_gib: size of its disk.
        addresses: how many public addresses it has.
        zones: where it may stand; empty for all zones of the region.
    """

    disk_gib: float = 0.0
    addresses: int = 0
    zones: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any], *, provider: str, rented: bool) -> Furnishing:
        """What a provider's settings say.

        Args:
            settings: of the cloud.
            provider: who reads them.
            rented: whether nodes will be rented by them, so that defaults are paid for too. What is only planned and
                says nothing of its nodes is priced by its machines alone.

        Raises:
            InvalidInput: under `settings`, one of them is not usable.
        """
        if provider != "ec2" or not (settings or rented):
            return cls()
        from rb_core.providers.ec2.settings import Ec2Settings

        usual = Ec2Settings()
        zones = settings.get("zones", usual.zones)
        if isinstance(zones, str) or not all(isinstance(zone, str) for zone in zones):
            raise InvalidInput("settings.zones", f"must be a list of names of zones, got {zones!r}")
        return cls(
            disk_gib=non_negative("settings.volume_gib", settings.get("volume_gib", usual.volume_gib)),
            addresses=int(bool(settings.get("public_ip", usual.public_ip))),
            zones=tuple(zones),
        )
