"""What AWS says once for a whole run: who is calling, what stands ready for its nodes, and what its types are."""

from __future__ import annotations

from collections.abc import Mapping

from rb_core.errors import InvalidInput
from rb_core.hardware import InstanceType
from rb_core.ports import Launch
from rb_core.providers.ec2 import groups, images, pools
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.ground import Ground
from rb_core.providers.ec2.identity import Identity
from rb_core.providers.ec2.images import Image
from rb_core.providers.ec2.instance_types import InstanceShape, describe
from rb_core.providers.ec2.pools import Place
from rb_core.providers.ec2.settings import KEY, Ec2Settings


class Surroundings:
    """Each is asked for when it is first needed, and kept.

    All may raise `NoAnswer`, and `InvalidInput` or `CallRefused` where it is not as it must be.

    Args:
        clients: of the run's region.
        settings: the user's.
    """

    def __init__(self, clients: Clients, settings: Ec2Settings) -> None:
        self._clients = clients
        self._settings = settings
        self._identity: Identity | None = None
        self._image: Image | None = None
        self._places: tuple[Place, ...] = ()
        self._group = settings.security_group
        self._shapes: dict[str, InstanceShape] = {}

    @property
    def identity(self) -> Identity:
        """Who is calling."""
        if self._identity is None:
            self._identity = Identity.ask(self._clients)
        return self._identity

    def ground(self, launches: Mapping[str, Launch]) -> Ground:
        """What nodes are launched with and where; the security group is made where there is none.

        What was found stays found when a later part of it has no answer.

        Args:
            launches: earlier calls of the run; the image of these is used again.
        """
        if self._image is None:
            used = [str(launch.request.get("image", "")) for launch in launches.values()]
            self._image = images.find(self._clients, self._settings, used[-1] if used else "")
        self._places = self._places or pools.places(self._clients.control, self._settings)
        self._group = self._group or groups.ensure(self._clients.control, self._places[0].vpc, self._settings.tags)
        return Ground(identity=self.identity, image=self._image, places=self._places, group=self._group)

    def shape(self, instance_type: InstanceType) -> InstanceShape:
        """What a type is."""
        if instance_type.name not in self._shapes:
            self._shapes[instance_type.name] = describe(self._clients.control, instance_type.name)
        return self._shapes[instance_type.name]

    def check_fits(self, instance_type: InstanceType, ground: Ground) -> None:
        """Raise `InvalidInput` unless the image can run on the type."""
        shape = self.shape(instance_type)
        if shape.architectures and ground.image.architecture not in shape.architectures:
            raise InvalidInput(
                f"{KEY}.image",
                f"must be for {' or '.join(shape.architectures)}, as {instance_type.name!r} is; {ground.image.id} is "
                f"for {ground.image.architecture}",
            )
