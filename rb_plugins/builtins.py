"""What ships with the package, registered by the same hooks as everything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rb_core.errors import InvalidInput
from rb_plugins import hookimpl

if TYPE_CHECKING:
    from rb_core.estate import Estate
    from rb_core.hardware import Cloud, PriceBook
    from rb_core.ports import Clock, Inbox, Launcher, Planner, Provider
    from rb_core.target import Target
    from rb_plugins.factories import EstateFactory, LauncherFactory, PlannerFactory, PriceBookFactory, ProviderFactory


@hookimpl
def rubberband_register_providers() -> Mapping[str, ProviderFactory]:
    """This machine, and Amazon's."""
    return {"local": _local, "ec2": _ec2}


@hookimpl
def rubberband_register_launchers() -> Mapping[str, LauncherFactory]:
    """One process a trial, or one for each slot."""
    return {"process": _process, "ddp": _ddp}


@hookimpl
def rubberband_register_planners() -> Mapping[str, PlannerFactory]:
    """The planners of rb_core."""
    return {"exact": _exact, "greedy": _greedy, "naive": _naive, "static": _static, "static-1": _static_one}


@hookimpl
def rubberband_register_estates() -> Mapping[str, EstateFactory]:
    """What an AWS account holds."""
    return {"ec2": _ec2_estate}


@hookimpl
def rubberband_register_price_books() -> Mapping[str, PriceBookFactory]:
    """EC2's prices: a snapshot, and as they are now."""
    return {"ec2": _ec2_prices, "aws": _aws_prices}


def _local(*, cloud: Cloud, clock: Clock, inbox: Inbox) -> Provider:
    from rb_core.providers.local import LocalProvider

    return LocalProvider(cloud=cloud, clock=clock, inbox=inbox)


def _ec2(*, cloud: Cloud, clock: Clock, inbox: Inbox) -> Provider:
    _require_boto3("cloud.provider")
    from rb_core.providers.ec2.provider import Ec2Provider

    return Ec2Provider(cloud=cloud, clock=clock, inbox=inbox)


def _process(*, target: Target, clock: Clock) -> Launcher:
    from rb_core.launchers.process import ProcessLauncher

    return ProcessLauncher(target)


def _ddp(*, target: Target, clock: Clock) -> Launcher:
    if find_spec("torch") is None:
        said = "'ddp' needs torch: pip install 'rubberband-tune[torch]', or take launcher = \"process\""
        raise InvalidInput("run.launcher", said)
    from rb_core.launchers.ddp import DdpLauncher

    return DdpLauncher(target)


def _exact() -> Planner:
    from rb_core.planners.exact import Exact

    return Exact()


def _greedy() -> Planner:
    from rb_core.planners.greedy import Greedy

    return Greedy()


def _naive() -> Planner:
    from rb_core.planners.naive import Naive

    return Naive()


def _static() -> Planner:
    from rb_core.planners.static import Static

    return Static()


def _static_one() -> Planner:
    from rb_core.planners.static import StaticOne

    return StaticOne()


def _ec2_prices(*, region: str = "", instance_types: Sequence[str] = ()) -> PriceBook:
    from rb_plugins.ec2_prices import price_book

    return price_book()


def _aws_prices(*, region: str = "", instance_types: Sequence[str] = ()) -> PriceBook:
    from rb_plugins.ec2_prices import live_book

    return live_book(region=region, instance_types=instance_types)


def _ec2_estate() -> Estate:
    _require_boto3("--provider")
    from rb_core.providers.ec2.estate import Ec2Estate

    return Ec2Estate()


def _require_boto3(key: str) -> None:
    if find_spec("boto3") is None:
        raise InvalidInput(key, "'ec2' needs boto3: pip install 'rubberband-tune[aws]'")
    from rb_plugins.importable import require

    require("boto3", key=key, user="'ec2'", extra="aws")
