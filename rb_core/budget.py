"""The limits of a run that no step may break: nodes held at one time, and money."""

from __future__ import annotations

from rb_core.billing import billed_s
from rb_core.errors import BudgetExceeded, LaunchFailure
from rb_core.hardware import BillingMode, Cloud, InstanceType
from rb_core.journal import Journal
from rb_core.ledger import cost_usd

GIVING_BACK_S = 1.0
"""Time allowed for giving all nodes back, so that the bill stays below the limit even then."""


class Budget:
    """Watches `max_nodes` and `max_usd` of one run.

    The money limit is looked at before each request, and again in time before what is held could reach it.
    """

    def __init__(self, cloud: Cloud, journal: Journal, max_usd: float | None) -> None:
        self._cloud = cloud
        self._journal = journal
        self._max_usd = max_usd

    def admit(self, count: int, instance_type: InstanceType) -> None:
        """Raise unless `count` nodes more may be requested now.

        Raises:
            LaunchFailure: more than `max_nodes` would be held.
            BudgetExceeded: their least charge, with what is due already, is above `max_usd`.
        """
        held = len(self._journal.state.held)
        if held + count > self._cloud.max_nodes:
            raise LaunchFailure(
                f"{count} more node(s) beside the {held} held would exceed max_nodes {self._cloud.max_nodes}; "
                "raise max_nodes or plan with fewer nodes"
            )
        if self._max_usd is None:
            return
        least_usd = self._cloud.data_usd
        if self._cloud.billing.mode is BillingMode.PER_INSTANCE:
            least_usd += float(billed_s(self._cloud.billing, GIVING_BACK_S)) * instance_type.usd_per_s
        step = f"requesting {count} node(s) of type {instance_type.name}"
        self._check(self._due_usd(self._journal.t_s) + count * least_usd, step)

    def check(self) -> float | None:
        """Raise when holding what is held any longer could exceed the limit; else say when to check again.

        Returns:
            Seconds of the run at which to check again; None when nothing is to be watched.

        Raises:
            BudgetExceeded: there is only just time to give everything back.
        """
        if self._max_usd is None or not self._journal.state.held:
            return None
        now_s = self._journal.t_s
        self._check(self._due_usd(now_s), f"holding {len(self._journal.state.held)} node(s) any longer")
        usd_per_s = self._usd_per_s
        if usd_per_s <= 0:
            return None
        pause_s = (self._max_usd - self._due_usd(now_s)) / usd_per_s
        while pause_s > GIVING_BACK_S and self._due_usd(now_s + pause_s) > self._max_usd:
            pause_s /= 2
        return now_s + max(pause_s, GIVING_BACK_S / 2)

    def _due_usd(self, at_s: float) -> float:
        """The bill if all nodes were given back from `at_s` on, at most."""
        state, until_s = self._journal.state, at_s + GIVING_BACK_S
        if self._cloud.billing.mode is BillingMode.PER_FUNCTION:
            # Whatever does not train now may begin to at any time.
            now_s = self._journal.t_s
            return cost_usd(state, self._cloud, now_s, committed=True) + (until_s - now_s) * self._usd_per_s
        return cost_usd(state, self._cloud, until_s, committed=True)

    @property
    def _usd_per_s(self) -> float:
        """What all held nodes cost per second."""
        state = self._journal.state
        return sum(state.nodes[name].usd_per_hour for name in state.held) / 3600.0

    def _check(self, needed_usd: float, step: str) -> None:
        if self._max_usd is not None and needed_usd > self._max_usd:
            raise BudgetExceeded(max_usd=self._max_usd, needed_usd=needed_usd, step=step)
