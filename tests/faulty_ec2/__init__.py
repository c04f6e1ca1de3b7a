"""EC2 on loopback, faults included: moto's server in this process, behind a shim with the behaviour that moto lacks.

    clock = ManualClock()                                     # anything with now() seconds and utc()
    with FaultyEC2(clock=clock, boot_s=40.0, capacity={("g4dn.xlarge", "us-east-1a", "spot"): 3}) as cloud:
        use(monkeypatch, cloud)                               # AWS_ENDPOINT_URL, made-up credentials, the region
        client = boto3.client("ec2")                          # or boto3.client("ec2", endpoint_url=cloud.url)
        cloud.fault("RunInstances", "error", code="RequestLimitExceeded", times=2)
        cloud.fault("RunInstances", "drop_after", when=lambda call: "ClientToken" in call.params)
        cloud.interrupt(instance_id, notice_s=120.0)          # the node reads cloud.metadata_url(instance_id)
        assert cloud.counts()["RunInstances"] == 3 and not cloud.alive() and not cloud.leaked_volumes()
        assert cloud.bill({("g4dn.xlarge", "spot"): 0.16}).total_usd == pytest.approx(...)

`cloud.image()`, `cloud.subnet(zone)`, `cloud.group()` and `cloud.profile(name)` give what a launch needs. What is due
by the clock is done before each call is answered; `cloud.tick()` does it when nobody calls. moto keeps its state in
globals of the process: one FaultyEC2 can be up in a process at a time, a second is refused, and each begins empty.
Clients: take them all from one `boto3.Session`, which reads AWS's descriptions of its services but once.

Not imitated, and refused by name: launch templates, CreateFleet, RequestSpotInstances, RequestSpotFleet and persistent
spot requests.
"""

from __future__ import annotations

from faulty_ec2.bill import Bill, Charge
from faulty_ec2.environment import CREDENTIALS, use
from faulty_ec2.faults import Fault, Kind
from faulty_ec2.instances import Instance
from faulty_ec2.server import FaultyEC2
from faulty_ec2.wire import Call

__all__ = ["CREDENTIALS", "Bill", "Call", "Charge", "Fault", "FaultyEC2", "Instance", "Kind", "use"]
