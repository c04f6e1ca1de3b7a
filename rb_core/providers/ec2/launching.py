"""Rents: one call after the other, each written down before it is made, until every node is had or no pool is left."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rb_core.errors import InvalidInput, LaunchFailure, NoAnswer, RubberBandError
from rb_core.events import LaunchAttempted, LaunchGranted, LaunchRefused
from rb_core.hardware import InstanceType
from rb_core.ports import Clock, Record
from rb_core.providers.ec2.attempts import Attempt, Attempts
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.ground import Ground
from rb_core.providers.ec2.pools import REMEMBERED_S, Place, Scarcity
from rb_core.providers.ec2.refusals import CallRefused, RefusalKind, answering
from rb_core.providers.ec2.request import expiry, new_token, order
from rb_core.providers.ec2.settings import KEY, Ec2Settings

Script = Callable[[str, Sequence[str], InstanceType], str]
"""Makes the user data of a call, of its token, its nodes and their type."""

_NO_QUOTA = re.compile(r"limit of 0\b")
_WRONG = (
    ("InvalidAMI", f"{KEY}.image"),
    ("InvalidSubnet", f"{KEY}.subnets"),
    ("InvalidGroup", f"{KEY}.security_group"),
    ("InvalidSecurityGroup", f"{KEY}.security_group"),
    ("InvalidBlockDevice", f"{KEY}.volume_gib"),
    ("InvalidTag", f"{KEY}.tags"),
    ("TagLimit", f"{KEY}.tags"),
)
_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Round:
    """How far one wish for nodes has come.

    Attributes:
        missing: names of the nodes that are still to be had.
        most: ask for no more than so many at a time: the quota allows no more.
        reasons: what each pool said that did not give all.
    """

    missing: list[str]
    most: int
    reasons: list[str]


class Launching:
    """Makes the renting calls of one run.

    Args:
        clients: of the run's region.
        settings: the user's.
        ground: what stands for the whole run.
        attempts: the calls made so far; told of each new one.
        scarcity: which pools had nothing lately.
        record: where each call is written.
        clock: the time.
        script: makes user data.
    """

    def __init__(
        self,
        *,
        clients: Clients,
        settings: Ec2Settings,
        ground: Ground,
        attempts: Attempts,
        scarcity: Scarcity,
        record: Record,
        clock: Clock,
        script: Script,
    ) -> None:
        self._clients = clients
        self._settings = settings
        self._ground = ground
        self._attempts = attempts
        self._scarcity = scarcity
        self._record = record
        self._clock = clock
        self._script = script

    def repeat(self, attempt: Attempt) -> None:
        """Make a call again that had no answer: it is obeyed once, however often it is made.

        Raises:
            NoAnswer: there is none this time either.
            RubberBandError: no call will bring anything.
        """
        try:
            self._call(attempt)
        except CallRefused as refused:
            self._close(attempt, refused)

    def rent(
        self, names: Sequence[str], instance_type: InstanceType, *, run: str, places: Sequence[Place], whole: bool
    ) -> str:
        """Rent a node for each name, where there is room for it.

        Args:
            names: nodes that no open call is for.
            instance_type: what, and in which market.
            run: id of the run.
            places: where, in order.
            whole: prefer a place that has all of them at once.

        Returns:
            Why some could not be had; empty when all were.

        Raises:
            NoAnswer: one call had none; what came before it stands.
            RubberBandError: no call will bring anything.
        """
        wish = _Round(missing=list(names), most=len(names), reasons=[])
        if whole and len(names) > 1 and len(places) > 1:
            for place in places:
                if self._ask(wish, instance_type, run, place, least=len(names)):
                    return ""
            wish.reasons.clear()
        for place in places:
            while wish.missing and wish.most and self._ask(wish, instance_type, run, place, least=1):
                pass
        if not wish.missing:
            return ""
        return str(_refusal(len(wish.missing), instance_type, wish.reasons))

    def _ask(self, wish: _Round, instance_type: InstanceType, run: str, place: Place, *, least: int) -> bool:
        """Ask one pool once; whether it may have more."""
        known = self._scarcity.known(instance_type, place, self._clock.now())
        if known:
            wish.reasons.append(f"{place.zone}: {known}, a short while ago")
            return False
        nodes = wish.missing[: wish.most]
        attempt = self._begin(nodes, instance_type, run, place, least)
        try:
            self._call(attempt)
        except CallRefused as refused:
            return self._refused(wish, attempt, place, refused, least)
        granted = len(attempt.instances or ())
        del wish.missing[:granted]
        if granted == len(nodes):
            self._scarcity.forget(instance_type, place)
            return True
        self._scarcity.note(instance_type, place, self._clock.now() + REMEMBERED_S, "no more capacity")
        wish.reasons.append(f"{place.zone}: {granted} of {len(nodes)}")
        return False

    def _begin(self, nodes: Sequence[str], instance_type: InstanceType, run: str, place: Place, least: int) -> Attempt:
        token = new_token()
        made = order(
            token=token,
            nodes=nodes,
            instance_type=instance_type,
            place=place,
            least=least,
            run=run,
            ground=self._ground,
            settings=self._settings,
            expires=expiry(self._clock.utc(), self._settings.lifetime_s),
            user_data=self._script(token, nodes, instance_type),
        )
        request = made.record(self._ground, self._clients.region, run)
        self._record.write(LaunchAttempted, attempt=token, nodes=made.nodes, request=request)
        return self._attempts.begin(made, request)

    def _call(self, attempt: Attempt) -> None:
        if attempt.order is None:
            raise NoAnswer(f"the call {attempt.token} was made by an earlier process")
        try:
            with answering("ec2:RunInstances"):
                answer = self._clients.launch.run_instances(**attempt.order.parameters)
        finally:
            self._attempts.hope(attempt)
        rows = sorted(answer["Instances"], key=lambda row: int(row.get("AmiLaunchIndex", 0)))
        attempt.instances = tuple(row["InstanceId"] for row in rows)
        self._record.write(LaunchGranted, attempt=attempt.token, instances=attempt.instances)

    def _refused(self, wish: _Round, attempt: Attempt, place: Place, refused: CallRefused, least: int) -> bool:
        """Take in that a pool gives nothing; whether it may be asked again at once, for less."""
        self._close(attempt, refused)
        instance_type = attempt.order.instance_type if attempt.order else None
        wish.reasons.append(f"{place.zone}: {refused.code}")
        match refused.kind:
            case RefusalKind.QUOTA:
                wish.most = min(wish.most, len(attempt.nodes)) // 2 if least == 1 else wish.most
                return wish.most > 0 and least == 1
            case RefusalKind.CAPACITY | RefusalKind.UNOFFERED if least == 1 and instance_type is not None:
                self._scarcity.note(instance_type, place, self._clock.now() + REMEMBERED_S, refused.code)
        return False

    def _close(self, attempt: Attempt, refused: CallRefused) -> None:
        """Write that nothing came of a call. Raises where no other call can do better."""
        attempt.refused = f"{refused.code}: {refused.said}" if refused.said else refused.code or refused.kind.value
        self._record.write(LaunchRefused, attempt=attempt.token, reason=attempt.refused)
        if refused.kind in (RefusalKind.CAPACITY, RefusalKind.UNOFFERED):
            return
        if refused.kind in (RefusalKind.SPENT_TOKEN, RefusalKind.TOKEN_MISMATCH):
            _logger.warning("a renting call was obeyed before and what it brought has ended: %s", attempt.refused)
            return
        if refused.kind is RefusalKind.QUOTA:
            if _NO_QUOTA.search(refused.said) and not self._attempts.alive():
                raise InvalidInput(
                    "cloud.instance_types",
                    f"must be types that this account may rent: its quota for {attempt.request['instance_type']!r} "
                    f"({attempt.request['market']}) is 0 vCPUs ({refused.code}); ask AWS for more under Service "
                    "Quotas, or choose other types",
                )
            return
        raise self._grave(refused)

    def _grave(self, refused: CallRefused) -> RubberBandError:
        if refused.kind is not RefusalKind.INPUT:
            return refused
        for start, key in _WRONG:
            if refused.code.startswith(start):
                return InvalidInput(key, f"was refused by EC2: {refused.said or refused.code}; change it")
        if "IAM Instance Profile" in refused.said:
            return InvalidInput(f"{KEY}.instance_profile", f"was refused by EC2: {refused.said}; name another one")
        return refused.as_input()


def _refusal(count: int, instance_type: InstanceType, reasons: Sequence[str]) -> LaunchFailure:
    return LaunchFailure(
        f"{count} node(s) of type {instance_type.name!r} ({instance_type.market}) could not be had: "
        f"{'; '.join(reasons)}; name more zones or another type, or wait"
    )
