"""What EC2 says of an instance type: the devices and the processor of one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rb_core.errors import InvalidInput
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, answering


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceShape:
    """One type as EC2 describes it.

    Attributes:
        name: its name.
        vcpus: its virtual processors.
        gpus: its GPUs.
        memory_gib: main memory.
        architectures: which programs it runs, such as ``x86_64``.
        markets: in which markets it is sold at all, such as ``on-demand`` and ``spot``.
    """

    name: str
    vcpus: int
    gpus: int
    memory_gib: float
    architectures: tuple[str, ...]
    markets: tuple[str, ...]

    def devices(self, slots: int) -> tuple[str, ...]:
        """What CUDA_VISIBLE_DEVICES is for each slot: empty without GPUs; with more slots than GPUs they share, evenly.

        Args:
            slots: slots of the node.
        """
        if self.gpus == 0:
            return ("",) * slots
        used = min(slots, self.gpus)
        return tuple(str(index * used // slots) for index in range(slots))


def describe(ec2: Any, name: str) -> InstanceShape:
    """What EC2 says of a type, by one call.

    Raises:
        InvalidInput: the region has no such type, or may not be asked.
        NoAnswer: EC2 did not answer.
    """
    try:
        with answering("ec2:DescribeInstanceTypes"):
            rows = ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
    except CallRefused as refused:
        if refused.kind is not RefusalKind.INPUT:
            raise refused.as_input() from refused
        rows = []
    if not rows:
        raise InvalidInput(
            "cloud.instance_types", f"must name types of EC2 that this region has, got {name!r}; see `rb-tune catalog`"
        )
    row = rows[0]
    return InstanceShape(
        name=name,
        vcpus=int(row["VCpuInfo"]["DefaultVCpus"]),
        gpus=sum(int(gpu.get("Count", 0)) for gpu in row.get("GpuInfo", {}).get("Gpus", ())),
        memory_gib=row.get("MemoryInfo", {}).get("SizeInMiB", 0) / 1024.0,
        architectures=tuple(row.get("ProcessorInfo", {}).get("SupportedArchitectures", ())),
        markets=tuple(row.get("SupportedUsageClasses", ())),
    )
