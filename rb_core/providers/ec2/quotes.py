"""What the nodes of a run that are bought on spot really cost, each in its zone when it began to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from rb_core.errors import NoAnswer
from rb_core.hardware import InstanceType, Market
from rb_core.ports import Clock, NodeNews, NodeNotice
from rb_core.providers.ec2.refusals import CallRefused
from rb_core.providers.ec2.spot_history import SpotPrice, in_force, spot_history

KEPT_S = 600.0
"""A type is asked for once in so long: longer than the nodes of one call take to run one after the other, and spot
prices change a few times a day."""

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """An answer of EC2; `prices` is None where it gave none."""

    at_s: float
    prices: tuple[SpotPrice, ...] | None


class Quotes:
    """Asks EC2 what spot costs, seldom, and never in vain: where it does not tell, the planned price stands.

    Args:
        ec2: asked for a client that repeats its calls.
        clock: the time.
    """

    def __init__(self, ec2: Callable[[], Any], clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._asked: dict[str, _Asked] = {}

    def priced(self, notices: Sequence[NodeNotice], types: Mapping[str, InstanceType], warn: Warn) -> list[NodeNotice]:
        """The same notices; those of nodes on spot that began to run say what the node costs there, all included.

        Args:
            notices: what there is to say.
            types: of the nodes, by their names.
            warn: told where the planned price has to do.
        """
        earliest: dict[str, float] = {}
        for each in notices:
            if _to_price(each, types):
                kind = types[each.node].name
                earliest[kind] = max(earliest.get(kind, 0.0), each.ago_s)
        known = {kind: self._prices(kind, ago_s, warn) for kind, ago_s in earliest.items()}
        return [
            self._with_price(each, types[each.node], known[types[each.node].name], warn)
            if _to_price(each, types)
            else each
            for each in notices
        ]

    def _prices(self, kind: str, ago_s: float, warn: Warn) -> tuple[SpotPrice, ...] | None:
        now_s = self._clock.now()
        asked = self._asked.get(kind)
        if asked is None or now_s >= asked.at_s + KEPT_S:
            prices = None
            try:
                prices = spot_history(self._ec2(), [kind], self._clock.utc() - timedelta(seconds=ago_s))
            except (NoAnswer, CallRefused) as error:
                warn(f"what {kind} costs on spot is not known ({error}); its nodes are billed at the planned price")
            asked = self._asked[kind] = _Asked(at_s=now_s, prices=prices)
        return asked.prices

    def _with_price(
        self, notice: NodeNotice, instance_type: InstanceType, prices: Sequence[SpotPrice] | None, warn: Warn
    ) -> NodeNotice:
        if prices is None:
            return notice
        price = in_force(prices, notice.zone, self._clock.utc() - timedelta(seconds=notice.ago_s))
        if price is None:
            warn(
                f"EC2 tells no spot price of {instance_type.name} in {notice.zone}; its nodes there are billed at the "
                "planned price"
            )
            return notice
        beside_usd = instance_type.disk_usd_per_hour + instance_type.address_usd_per_hour
        return replace(notice, usd_per_hour=price.usd_per_hour + beside_usd)


def _to_price(notice: NodeNotice, types: Mapping[str, InstanceType]) -> bool:
    known = types.get(notice.node)
    return notice.kind is NodeNews.RUNNING and known is not None and known.market is Market.SPOT
