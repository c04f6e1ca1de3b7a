"""Spot requests: the one-time ones that RunInstances makes, which moto lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.utils import random_spot_request_id

from faulty_ec2.instances import Record
from faulty_ec2.wire import Answer, Call, Refusal, ec2_xml
from faulty_ec2.world import World


class SpotRequest(TaggedEC2Resource):
    """A one-time spot request, under the names by which moto writes an answer."""

    def __init__(self, backend: Any, instance: Any, made_at: Any, tags: Mapping[str, str]) -> None:
        self.ec2_backend = backend
        self.id = self.spot_instance_request_id = random_spot_request_id()
        self.instance_id = instance.id
        self.type = "one-time"
        self.state = "active"
        self.status_code = "fulfilled"
        self.create_time = made_at
        self.instance_interruption_behavior = "terminate"
        self.product_description = "Linux/UNIX"
        self.launched_availability_zone = instance.placement.zone
        self.add_tags(dict(tags))

    @property
    def status(self) -> dict[str, Any]:
        """Status code, its message and time."""
        return {"Code": self.status_code, "Message": self.status_code, "UpdateTime": self.create_time}

    def get_filter_value(self, filter_name: str, method_name: str | None = None) -> Any:
        """What moto's filters compare with."""
        own = {"state": self.state, "spot-instance-request-id": self.id, "instance-id": self.instance_id}
        if filter_name in own:
            return own[filter_name]
        return super().get_filter_value(filter_name, "DescribeSpotInstanceRequests")


def open_for(world: World, region: str, instance: Any, tags: Mapping[str, str]) -> str:
    """Make the request of a spot instance that was launched; its id."""
    backend = world.backend(region)
    request = SpotRequest(backend, instance, world.stamp(), tags)
    backend.spot_instance_requests[request.id] = request
    instance.spot_instance_request_id = request.id
    return request.id


def close(world: World, record: Record, why: str) -> None:
    """A one-time request ends with its instance."""
    request = world.backend(record.region).spot_instance_requests.get(record.spot_request)
    if request is not None and request.state != "cancelled":
        request.state = "closed"
        reclaimed = why == "Server.SpotInstanceTermination"
        request.status_code = "instance-terminated-no-capacity" if reclaimed else "instance-terminated-by-user"


def cancel(world: World, call: Call) -> Answer:
    """CancelSpotInstanceRequests: the instances run on, as they do at AWS."""
    known = world.backend(call.region).spot_instance_requests
    names = call.listed("SpotInstanceRequestId")
    for name in names:
        if name not in known:
            raise Refusal(
                "InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{name}' does not exist"
            )
    items = ""
    for name in names:
        request = known[name]
        if request.state in ("open", "active"):
            request.state = "cancelled"
            request.status_code = "request-canceled-and-instance-running"
        items += f"<item><spotInstanceRequestId>{name}</spotInstanceRequestId><state>cancelled</state></item>"
    return ec2_xml(call.action, f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>")


def price_history(world: World, call: Call) -> Answer:
    """DescribeSpotPriceHistory: the prices that were set, each as of now."""
    types = call.listed("InstanceType")
    zone = call.params.get("AvailabilityZone")
    zones = set(world.zone_names(call.region)) if zone is None else {zone}
    stamp = world.stamp().strftime("%Y-%m-%dT%H:%M:%S.000Z")
    items = "".join(
        f"<item><instanceType>{name}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{price:.6f}</spotPrice><timestamp>{stamp}</timestamp><availabilityZone>{where}</availabilityZone></item>"
        for (name, where), price in sorted(world.spot_usd_per_hour.items())
        if where in zones and (not types or name in types)
    )
    return ec2_xml(call.action, f"<spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken/>")
