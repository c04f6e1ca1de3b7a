"""The pretended EC2: what a test holds in its hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta

from faulty_ec2 import lifecycle, moto_side
from faulty_ec2.bill import Bill, make_bill
from faulty_ec2.faults import Fault, Kind
from faulty_ec2.front import Front
from faulty_ec2.instances import Instance
from faulty_ec2.wire import Call


class FaultyEC2(Front):
    """A context manager, see `Front`. See the package for an example, `World` for the settings."""

    # What a launch needs

    def image(self, region: str | None = None) -> str:
        """The AMI that a region knows."""
        return moto_side.image_id(region or self.region)

    def subnet(self, zone: str | None = None) -> str:
        """The default subnet of a zone."""
        zone = zone or self.zone_names(self.region)[0]
        return str(self.backend(zone[:-1]).get_default_subnets()[zone].id)

    def group(self, region: str | None = None) -> str:
        """The default security group of a region."""
        return str(self.backend(region or self.region).get_security_group_from_name("default").id)

    def profile(self, name: str = "node") -> str:
        """An instance profile with a role of its name; made where it is new."""
        moto_side.role_arn(name)
        return name

    def metadata_url(self, instance: str) -> str:
        """What an instance has in AWS_EC2_METADATA_SERVICE_ENDPOINT."""
        return f"{self.url}/imds/{instance}"

    # Powers

    def fault(
        self,
        action: str,
        kind: str,
        *,
        code: str = "",
        seconds: float = 0.0,
        times: int | None = 1,
        after: int = 0,
        when: Callable[[Call], bool] | None = None,
    ) -> Fault:
        """Let calls of an action go wrong; see `Fault`."""
        made = Fault(action=action, kind=Kind(kind), code=code, seconds=seconds, times=times, after=after, when=when)
        if (made.kind is Kind.ERROR) != bool(code):
            raise ValueError("a fault of kind error, and no other, takes a code")
        with self._lock:
            self._faults.append(made)
        return made

    def interrupt(self, instance: str, notice_s: float = 120.0, *, comes_true: bool = True) -> None:
        """Let AWS take a spot instance back: with a notice so long before, without one at 0, or as a mere threat."""
        with self._lock:
            record = self.records[instance]
            if record.market != "spot":
                raise ValueError(f"{instance} is no spot instance")
            if notice_s > 0:
                at = self.clock.utc() + timedelta(seconds=notice_s)
                self._notices(instance)["spot/instance-action"] = json.dumps(
                    {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
                )
                self._notices(instance)["spot/termination-time"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
            if comes_true:
                record.ends_s, record.ends_why = self.now() + notice_s, lifecycle.RECLAIMED
        self.tick()

    def rebalance(self, instance: str) -> None:
        """Signal a higher risk of interruption, and nothing more."""
        at = self.clock.utc().strftime("%Y-%m-%dT%H:%M:%SZ")
        self._notices(instance)["events/recommendations/rebalance"] = json.dumps({"noticeTime": at})

    def withdraw(self, instance: str) -> None:
        """Take back the notices that an instance was given."""
        with self._lock:
            self._metadata.notices.pop(instance, None)

    def fail(self, instance: str, why: str = "Server.InternalError") -> None:
        """Let an instance end by itself, now."""
        with self._lock:
            lifecycle.end(self, self.records[instance], self.now(), why)
        self.tick()

    def expire_credentials(self, at_s: float | None = None) -> None:
        """Let the driver's credentials expire at a time of the clock, or now."""
        self.access.expires_s = self.now() if at_s is None else at_s

    # Oracles

    def counts(self) -> Counter[str]:
        """Calls by action; those of metadata are not among them."""
        return Counter(call.action for call in list(self.calls) if call.service != "imds")

    def instances(self) -> list[Instance]:
        """Every instance there ever was, hidden and forgotten ones too."""
        self.tick()
        with self._lock:
            return [record.view() for record in self.records.values()]

    def alive(self) -> list[Instance]:
        """Instances that are not terminated, whether or not the listings show them: the oracle of leaks."""
        return [instance for instance in self.instances() if instance.state != "terminated"]

    def leaked_volumes(self) -> list[str]:
        """Ids of volumes that are attached to nothing."""
        self.tick()
        with self._lock:
            held = [volume for made in self._backends.values() for volume in made.volumes.values()]
            return [volume.id for volume in held if volume.attachment is None]

    def open_spot_requests(self) -> list[str]:
        """Ids of spot requests that are neither closed nor cancelled."""
        self.tick()
        with self._lock:
            held = [request for made in self._backends.values() for request in made.spot_instance_requests.values()]
            return [request.id for request in held if request.state in ("open", "active")]

    def bill(
        self,
        prices: Mapping[tuple[str, ...], float],
        *,
        disk_usd_per_gib_month: float = 0.08,
        address_usd_per_hour: float = 0.005,
    ) -> Bill:
        """What AWS would bill up to now; see `make_bill`."""
        self.tick()
        with self._lock:
            return make_bill(
                self.records, self.volumes.spans, self.now(), prices, disk_usd_per_gib_month, address_usd_per_hour
            )
