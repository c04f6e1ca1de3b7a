"""What stands for the whole of a run: whose account it is, what nodes boot from and where they may stand."""

from __future__ import annotations

from dataclasses import dataclass

from rb_core.providers.ec2.identity import Identity
from rb_core.providers.ec2.images import Image
from rb_core.providers.ec2.pools import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Looked up before the first launch.

    Attributes:
        identity: who calls.
        image: what nodes boot from.
        places: where they may stand, in order.
        group: id of their security group.
    """

    identity: Identity
    image: Image
    places: tuple[Place, ...]
    group: str
