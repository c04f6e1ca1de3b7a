"""What stands for the whole of a run: whose account it is, what nodes boot from and where they may stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rb_core.ports import Launch
from rb_core.providers.ec2 import groups, images, pools
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.identity import Identity
from rb_core.providers.ec2.images import Image
from rb_core.providers.ec2.pools import Place
from rb_core.providers.ec2.settings import Ec2Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Looked up once, before the first launch.

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

    @classmethod
    def find(
        cls, clients: Clients, settings: Ec2Settings, identity: Identity, launches: Mapping[str, Launch]
    ) -> Ground:
        """Look everything up, and make the security group where there is none.

        Args:
            clients: of the run's region.
            settings: the user's.
            identity: who calls.
            launches: those of the run so far: it goes on with the image that it began with.

        Raises:
            InvalidInput: something is not there or may not be seen.
            NoAnswer: AWS did not answer.
        """
        used = [str(launch.request.get("image", "")) for launch in launches.values()]
        image = images.find(clients, settings, used[-1] if used else "")
        places = pools.places(clients.control, settings)
        group = settings.security_group or groups.ensure(clients.control, places[0].vpc, settings.tags)
        return cls(identity=identity, image=image, places=places, group=group)
