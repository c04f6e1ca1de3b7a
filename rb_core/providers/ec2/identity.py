"""Who is calling: the account and the identity that AWS sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rb_core.errors import InvalidInput
from rb_core.ports import Launch
from rb_core.providers.ec2.clients import Clients
from rb_core.providers.ec2.refusals import CallRefused, answering


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The account and who acts in it.

    Attributes:
        account: number of the account.
        arn: the identity's full name.
    """

    account: str
    arn: str

    @property
    def name(self) -> str:
        """The last part of its full name: a user, or a role's session."""
        return self.arn.rpartition("/")[2] or self.arn

    @classmethod
    def ask(cls, clients: Clients) -> Identity:
        """The identity of these clients, by one call.

        Raises:
            InvalidInput: there are no credentials, or AWS does not accept them.
            NoAnswer: AWS did not answer.
        """
        try:
            with answering("sts:GetCallerIdentity"):
                told = clients.service("sts").get_caller_identity()
        except CallRefused as refused:
            raise refused.as_input() from refused
        return cls(account=str(told["Account"]), arn=str(told["Arn"]))


def check_same(launches: Mapping[str, Launch], *, region: str, account: str) -> None:
    """Raise `InvalidInput` when a run's log tells of nodes in another account or region than this one."""
    for launch in launches.values():
        before = (str(launch.request.get("account", account)), str(launch.request.get("region", region)))
        if before != (account, region):
            raise InvalidInput(
                "cloud.region" if before[0] == account else "",
                f"this run rented nodes in account {before[0]}, region {before[1]}, and is resumed in account "
                f"{account}, region {region}, where none of them can be seen or ended; resume it as it was begun "
                "(AWS_PROFILE, cloud.region). Nothing was done",
            )
