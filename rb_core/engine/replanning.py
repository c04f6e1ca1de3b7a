"""When the rest of a lane is planned anew, and what becomes of the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace

from rb_core.cluster import FIRST_PAUSE_S
from rb_core.engine.lane import Lane
from rb_core.engine.running import Setting
from rb_core.events import Replanned
from rb_core.hardware import Cloud, InstanceType, Market, MarketPolicy
from rb_core.holdings import holdings
from rb_core.ledger import released_usd
from rb_core.markets import MARGIN, Outlook, bought, changeover_s, latest_on_spot_s, market_for
from rb_core.plan import Objective, Problem
from rb_core.planners.rest import (
    LEAST_GAIN,
    SMALL_MISS,
    Rest,
    Restart,
    evaluate,
    in_a_row,
    replanned,
    stages_left,
)
from rb_core.ports import Errand, Timer
from rb_core.spec import Stage
from rb_core.state import TrialPhase

DRIFT = 0.1
"""The rest is planned anew when iterations take this much more or less than when it was planned last."""

SLIGHT_DRIFT = MARGIN
"""When they take this much more, which can use up the margin, it is looked whether the plan is still in time."""

SCARCE = 3
"""After so many requests in a row that came to nothing, with no node held, other types are looked at."""

LEAST_LOOK_S = 30.0
"""On spot, the time that is left is looked at no more often than this when nothing happens."""

SCARCE_S = 1800.0
"""So long the type is then not asked for again: what is given back for it would have to be paid for in vain."""


class Replanning:
    """Plans the rest of one lane anew, by what has been measured and what is held."""

    def __init__(self, setting: Setting, lane: Lane, room: Callable[[], int]) -> None:
        """Nothing has been planned anew yet.

        Args:
            setting: what all parts of the engine share.
            lane: whose rest it is.
            room: how many nodes the lane may hold.
        """
        self._setting = setting
        self._lane = lane
        self._room = room
        self._drift: dict[int, float] = {}
        self._missed = ""
        self._missed_s = -math.inf
        self._look: Timer | None = None

    def drifted(self) -> None:
        """Plan anew when iterations have turned out slower or much faster than the last plan took them to be."""
        if self._nothing_to_plan:
            return
        now = self._factors()
        changes = {slots: factor / self._drift.get(slots, 1.0) for slots, factor in now.items()}
        slots = max(changes, key=lambda slots: abs(math.log(changes[slots])))
        change = changes[slots] - 1.0
        why = f"iterations take {now[slots]:.2f} times what the profile says"
        if abs(change) > DRIFT:
            self.consider(why)
        elif change > SLIGHT_DRIFT:
            self.consider(why, least_gain=1.0)

    def refused(self) -> None:
        """Plan anew when the last plan is late, or cannot be carried out, for nodes that could not be had."""
        self.consider("nodes could not be had", least_gain=1.0)

    def consider(self, reason: str, least_gain: float = LEAST_GAIN) -> None:
        """Plan the rest anew, and change to the new plan when that is worth it.

        Args:
            reason: why now, in words.
            least_gain: as of `replanned`.

        Raises:
            BudgetExceeded: nodes of the new plan could bring the bill above `max_usd`.
        """
        if self._nothing_to_plan:
            return
        if self._setting.request.replan:
            self._change(reason, least_gain)
        if self._choose_market() and self._setting.request.replan:
            self._change(f"{reason}; nodes are bought {self._lane.cluster.market.value.replace('_', ' ')}", least_gain)

    def _change(self, reason: str, least_gain: float) -> None:
        self._drift = self._factors()
        rest = self._rest()
        change = replanned(rest, least_gain=least_gain)
        if change is None:
            return
        journal, chain = self._setting.journal, self._lane.chain
        journal.write(
            Replanned,
            chain=chain.number,
            stage=chain.stage,
            plan=change.plan.record(rest.problem.experiment),
            reason=f"{reason}: {change.reason}",
            jct_s=self._elapsed_s + change.jct_s,
            cost_usd=change.cost_usd,
            before_jct_s=self._elapsed_s + change.before_jct_s,
            before_cost_usd=change.before_cost_usd,
        )
        allocations = iter(in_a_row(change.plan))
        own, *later = ([next(allocations) for _ in other.left()] for other in self._lane.left)
        for follower, new in zip(self._lane.left[1:], later, strict=True):
            follower.allocations[:] = new
        chain.move(own)

    def _factors(self) -> dict[int, float]:
        """How many times as long as in the profile an iteration takes, on each width that is still planned."""
        left = (pair for chain in self._lane.left for pair in chain.left())
        widths = {allocation.slots_per_trial for _, allocation in left}
        return self._setting.learning.factors_of(self._alive(), sorted(widths))

    @property
    def _nothing_to_plan(self) -> bool:
        chain = self._lane.chain
        return self._lane.over or chain.done or chain.at_barrier

    @property
    def _elapsed_s(self) -> float:
        journal = self._setting.journal
        return journal.t_s - journal.state.began_s

    def close(self) -> None:
        """Look at nothing any more."""
        if self._look is not None:
            self._look.cancel()

    def _choose_market(self) -> bool:
        """Ask for nodes in the market that the time left allows; whether it is another one than before.

        It is looked at again when the slack would be used up even if nothing went on.
        """
        problem, cluster = self._setting.request.problem, self._lane.cluster
        self.close()
        if problem.cloud.market is not MarketPolicy.SPOT_THEN_ON_DEMAND:
            return False
        outlook = self._outlook()
        market = Market.SPOT if outlook is None else market_for(outlook, cluster.market, refused=cluster.failures > 0)
        if cluster.hopeless:
            market = Market.ON_DEMAND
        if outlook is not None and market is Market.SPOT:
            clock, inbox = self._setting.clock, self._setting.inbox
            look_s = clock.now() + max(LEAST_LOOK_S, outlook.slack_s)
            again = Errand(action=lambda: self.consider("time has passed on spot", least_gain=1.0))
            self._look = clock.call_at(look_s, lambda: inbox.put(again))
        if market is cluster.market:
            return False
        if cluster.hopeless:
            self._setting.journal.warn("spot has had no node to give for long: nodes are bought on demand from now on")
        elif outlook is not None:
            self._setting.journal.warn(
                f"{outlook.left_s:.0f} s are left, the rest would take {outlook.spot_s:.0f} s on spot and "
                f"{outlook.on_demand_s:.0f} s on demand: nodes are bought {market.value.replace('_', ' ')} from now on"
            )
        cluster.buy(market)
        return True

    def _outlook(self) -> Outlook | None:
        """How the run stands against its deadline; None without one that is still to come."""
        problem = self._setting.request.problem
        if problem.objective is None or problem.objective.deadline_s is None:
            return None
        left_s = problem.objective.deadline_s - self._elapsed_s
        if left_s <= 0:
            return None
        rest = self._rest(Market.SPOT, surely=True)
        kind = None if rest.instance_type is None else _of_kind(rest.instance_type, Market.ON_DEMAND)
        cloud = _as_bought(rest.problem.cloud, Market.ON_DEMAND)
        on_demand = replace(rest, problem=replace(rest.problem, cloud=cloud), instance_type=kind)
        return Outlook(
            left_s=left_s * (1.0 - MARGIN / 2),
            spot_s=evaluate(rest, rest.current)[0],
            on_demand_s=evaluate(on_demand, rest.current)[0],
            changeover_s=changeover_s(rest.problem),
        )

    def _rest(self, market: Market | None = None, *, surely: bool = False) -> Rest:
        """What is left, as it is bought in a market; None for the one in which nodes are asked for now.

        `surely` is as of `ChainRun.left`.
        """
        problem = self._setting.request.problem
        learning = self._setting.learning
        market = self._lane.cluster.market if market is None else market
        kind = self._lane.cluster.instance_type
        experiment, current = stages_left(pair for chain in self._lane.left for pair in chain.left(surely=surely))
        left = Problem(
            experiment=experiment,
            profile=learning.profile_of(self._alive()),
            cloud=replace(_as_bought(learning.cloud, market), max_nodes=self._room()),
            objective=self._objective(market),
            policies=problem.policies,
            checkpoint_every_s=self._setting.request.checkpoint_every_s,
        )
        deadline_s = problem.objective.deadline_s if problem.objective else None
        return Rest(
            problem=left,
            current=current,
            instance_type=None if kind is None else _of_kind(kind, market),
            held=holdings(self._lane.cluster, self._setting.journal, learning.cloud),
            restart=self._restart(experiment.chains[0][0]),
            reserve_s=self._reserve_s(left.objective),
            worth_missing_s=None if deadline_s is None else 0.0 if self._may_leave(market) else SMALL_MISS * deadline_s,
            scarce=self._scarce(),
            overdue=deadline_s is not None and deadline_s <= self._elapsed_s,
            spent_usd=released_usd(self._setting.journal.state, problem.cloud, lane=self._lane.number),
        )

    def _alive(self) -> Collection[int]:
        """The trials that are left to run, where their chain is the last one; else none in particular."""
        chain, *later = self._lane.left
        if later:
            return ()
        if chain.due or len(chain.left()) > 1:
            return chain.alive
        trials = self._setting.journal.state.trials
        return [trial for trial in chain.alive if trials[trial].phase is not TrialPhase.PAUSED]

    def _scarce(self) -> str:
        """The type that could not be had so often that another one is looked for; empty where there is none."""
        cluster, now_s = self._lane.cluster, self._setting.journal.t_s
        kind = cluster.instance_type.name if cluster.instance_type else ""
        held = bool(cluster.usable or cluster.requested)
        if kind and not held and cluster.failures >= SCARCE:
            self._missed, self._missed_s = kind, now_s
        again = now_s >= self._missed_s + SCARCE_S or (held and kind == self._missed)
        return "" if again else self._missed

    def _objective(self, market: Market) -> Objective | None:
        """What is left of the limit; None when nothing is, so that the rest is to be as cheap as it can be by its end.

        On spot, where it may be left for the other market, that is until the last moment to do so.
        """
        problem = self._setting.request.problem
        objective = problem.objective
        if objective is None or objective.deadline_s is None:
            return objective
        left_s = objective.deadline_s - self._elapsed_s
        if self._may_leave(market):
            left_s = latest_on_spot_s(problem, left_s)
        return replace(objective, deadline_s=left_s) if left_s > 0 else None

    def _may_leave(self, market: Market) -> bool:
        """Whether what is bought in a market may be exchanged for what is bought in the other one."""
        policy = self._setting.request.problem.cloud.market
        return market is Market.SPOT and policy is MarketPolicy.SPOT_THEN_ON_DEMAND

    def _reserve_s(self, objective: Objective | None) -> float:
        """The margin; where requests are refused, one more round of them as well."""
        if objective is None or objective.deadline_s is None:
            return 0.0
        refused = any(node.running_s is None and node.lost for node in self._setting.journal.state.nodes.values())
        again_s = self._setting.learning.cloud.launch_s.mean + FIRST_PAUSE_S
        return MARGIN * objective.deadline_s + (again_s if refused else 0.0)

    def _restart(self, left: Stage) -> Restart | None:
        """What it takes to go on with the stage anew; each trial that runs is through with one iteration more by then.

        Args:
            left: what is left of it now.
        """
        chain = self._lane.chain
        if chain.due:
            return None
        running = chain.running.values()
        through = sum(trial.run.to_iteration - trial.iterations <= 1 for trial in running)
        trials = max(1, left.trials - through)
        iterations = left.trials * left.iterations - len(running)
        return Restart(
            after_s=max((trial.stop_s for trial in running), default=0.0),
            stage=Stage(trials=trials, iterations=max(1, round(iterations / trials))),
        )


def _as_bought(cloud: Cloud, market: Market) -> Cloud:
    """A cloud as it is planned with in a market; on spot as it is."""
    return replace(cloud, instance_types=tuple(_of_kind(kind, market) for kind in cloud.instance_types))


def _of_kind(kind: InstanceType, market: Market) -> InstanceType:
    return bought(kind, market) if kind.market is Market.SPOT else kind
