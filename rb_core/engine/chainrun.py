"""One chain of stages while it runs: an object that knows its own stage, and nothing of other chains."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rb_core.bracket import Bracket
from rb_core.cluster import NOT_NEXT, Cluster, HeldNode
from rb_core.engine.failures import Failures
from rb_core.engine.places import Place, Places
from rb_core.engine.running import RunningTrial, Setting, remove
from rb_core.errors import FailureKind, LaunchFailure, StoreFailure, TrialFailure
from rb_core.events import (
    CheckpointLost,
    StageEnded,
    StageStarted,
    TrialFailed,
    TrialInterrupted,
    TrialLeft,
    TrialPaused,
)
from rb_core.hardware import InstanceType
from rb_core.placement import Placement
from rb_core.plan import StageAllocation
from rb_core.ports import Notice, Timer, TrialRun
from rb_core.spec import Chain, Stage
from rb_core.state import TrialPhase
from rb_core.trial import Message

_OUT = (TrialPhase.FAILED, TrialPhase.LEFT)
"""Phases of trials that are in the bracket no more, before their stage is decided."""

DOUBT_S = 5.0
"""How long the loss of its node may be in coming before a trial whose processes vanished is to blame for that."""

LEAVING_S = 5.0
"""Kept back of the time that a leaving node stays, for its trials to be gone before it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierReached(Notice):
    """The barrier after a chain's stage is over."""

    chain: int


@dataclass(slots=True, kw_only=True)
class _Doubt:
    """A start whose processes vanished: through its own fault, or with a node?"""

    running: RunningTrial
    failure: TrialFailure
    timer: Timer


class ChainRun:
    """Runs the stages of one chain, told of everything that happens by the engine.

    A stage: its barrier opens, the cluster is resized, each trial in order takes the place that is usable and free
    earliest, and when all have ended, the bracket decides who goes on.

    Attributes:
        number: the chain's.
        done: whether all its stages have ended.
        allocations: of all its stages.
        due: trials of a stage that is to begin; empty within one.
        follower: the chain that takes the nodes over; None when they are given back.
        running: the starts whose processes are there.
    """

    def __init__(
        self,
        setting: Setting,
        cluster: Cluster,
        failures: Failures,
        bracket: Bracket,
        *,
        number: int,
        allocations: Sequence[StageAllocation],
        trials: Sequence[int],
    ) -> None:
        """A chain that has not begun in this process.

        Args:
            setting: what it shares with the rest of the engine.
            cluster: its nodes.
            failures: failures of the whole run.
            bracket: decides who goes on; in a resumed run it stands where the log ends.
            number: the chain's.
            allocations: of all its stages.
            trials: numbers of its trials.
        """
        self.number = number
        self.done = False
        self.allocations = list(allocations)
        self.due: tuple[int, ...] = tuple(trials)
        self.follower: ChainRun | None = None
        self.running: dict[int, RunningTrial] = {}
        self._setting = setting
        self._cluster = cluster
        self._failures = failures
        self._stages: Chain = setting.request.problem.experiment.chains[number]
        self._ends = tuple(accumulate(stage.iterations for stage in self._stages))
        self._trials = tuple(trials)
        self._bracket = bracket
        self._queue: deque[int] = deque()
        self._doubts: dict[int, _Doubt] = {}
        self._attempts: Counter[int] = Counter()
        self._failed_here: dict[int, TrialFailure] = {}
        self._left_here: list[int] = []
        self._read_keys: list[frozenset[str] | None] = []
        self._at_barrier = False
        self._moving = False

    @property
    def stage(self) -> int:
        """The stage that runs, or is about to begin."""
        return self._bracket.stage

    @property
    def finished(self) -> bool:
        """Whether its last stage has been decided, or nobody was left to go on."""
        return self.stage == len(self._stages)

    @property
    def at_barrier(self) -> bool:
        """Whether all trials of the stage have ended and its barrier is not over."""
        return self._at_barrier and not self.due

    @property
    def alive(self) -> tuple[int, ...]:
        """The trials of the stage that runs, or is about to begin, without those that have failed or left."""
        trials = self._setting.journal.state.trials
        return self.due or tuple(t for t in self._stage_trials() if trials[t].phase not in _OUT)

    def left(self, *, surely: bool = False) -> list[tuple[Stage, StageAllocation]]:
        """Its stages that are left, with what is planned for them.

        Of a stage that runs these are the trials that are not through with it, and their mean iterations; where none
        waits for a place, the most that any of them has left.

        Args:
            surely: the most also where some wait for a place that the allocation has, and the nodes do not.
        """
        trials, stage = self._setting.journal.state.trials, self.stage
        alive = len(self.alive)
        stages = [Stage(trials=min(s.trials, alive), iterations=s.iterations) for s in self._stages[stage:]]
        waiting = [*self._queue, *self.running, *self._doubts]
        if waiting:
            done = [self.running[t].iterations if t in self.running else trials[t].iterations for t in waiting]
            queue = bool(self._queue)
            if queue and surely:
                kind, allocation = self._instance_type, self.allocations[stage]
                placement = Placement(
                    trials=len(waiting),
                    slots_per_trial=allocation.slots_per_trial,
                    node_slots=kind.slots,
                    nodes=allocation.nodes,
                )
                queue = placement.places < len(waiting)
            left = self._ends[stage] - (sum(done) / len(done) if queue else min(done))
            stages[0] = Stage(trials=len(waiting), iterations=max(1, math.ceil(left)))
        return list(zip(stages, self.allocations[stage:], strict=True))

    def begin(self) -> None:
        """Begin the stage that is due."""
        trials, self.due = self.due, ()
        self._attempts.clear()
        self._failed_here = {}
        self._left_here = []
        allocation = self.allocations[self.stage]
        self._setting.journal.write(
            StageStarted,
            chain=self.number,
            stage=self.stage,
            trials=trials,
            instance_type=allocation.instance_type,
            nodes=allocation.nodes,
            slots_per_trial=allocation.slots_per_trial,
        )
        self._settle(trials)

    def resume(self) -> None:
        """Go on where the log ends: within a stage, at its barrier, or before the next one."""
        state = self._setting.journal.state
        mine = [stage for stage in state.stages if stage.chain == self.number]
        if not mine:
            return
        self.due = ()
        if self.finished:
            self.done = True
        elif mine[-1].stage < self.stage:
            self.due = mine[-1].survivors
        else:
            left = [t for t in mine[-1].trials if state.trials[t].phase is TrialPhase.WAITING]
            self._failed_here = {
                t: TrialFailure(trial=t, rank=0, cause=state.trials[t].cause)
                for t in mine[-1].trials
                if state.trials[t].phase is TrialPhase.FAILED
            }
            self._left_here = [t for t in mine[-1].trials if state.trials[t].phase is TrialPhase.LEFT]
            self._settle(tuple(left), "not needed by the run as it was resumed")

    def move(self, allocations: Sequence[StageAllocation]) -> None:
        """Run the current stage and what follows it under other allocations.

        More or fewer nodes are had at once, though none with a trial on it is given back before the barrier. Where the
        type or the width changes, the trials are asked to save and end, and go on as the new allocation has it.
        """
        before = self.allocations[self.stage]
        self.allocations[self.stage :] = allocations
        now = self.allocations[self.stage]
        if self.due:
            return
        if (before.instance_type, before.slots_per_trial) == (now.instance_type, now.slots_per_trial):
            self._cluster.want(now.nodes)
            return
        self._moving = True
        for running in self.running.values():
            running.interrupt("goes on with another allocation", self._setting.request.grace_s + running.step_s)
        self._moved()

    def joined(self, node: HeldNode) -> None:
        """A node became usable."""
        if not self._moving:
            self._places.add(node.name, node.slots)
        self._advance()

    def leaving(self, node: HeldNode, in_s: float) -> None:
        """A node will be taken away: its trials save and go elsewhere."""
        self._places.lose(node.name)
        for running in self.running.values():
            if node.name in running.place.nodes:
                running.interrupt("its node is taken away", max(0.0, in_s - LEAVING_S))
        self._excuse(node)
        self._let_go((node.name,))

    def lost(self, node: HeldNode) -> None:
        """A node is gone: its trials go on from their last checkpoints, on another one."""
        self._places.lose(node.name)
        for running in self.running.values():
            if node.name in running.place.nodes:
                running.interrupt("its node was lost")
        self._excuse(node)

    def replace(self) -> None:
        """Go on after the loss of a node: with another one, unless the stage has room enough without it."""
        self._make_up()
        self._advance()

    def doubt_no_more(self) -> None:
        """The run is over: what became of the trials whose processes vanished is not waited for."""
        for doubt in self._doubts.values():
            doubt.timer.cancel()

    def told(self, trial: int, rank: int, message: Message) -> None:
        """A running trial said something."""
        running = self.running.get(trial)
        if running is not None:
            running.told(rank, message)

    def exited(self, trial: int, failure: TrialFailure | None, left: str = "") -> None:
        """All processes of a trial are gone; `left` says why nothing more of it is to run."""
        running = self.running.pop(trial, None)
        if running is None:
            return
        running.left()
        problem = running.problem(failure)
        if left:
            self._leave(trial, left)
        elif problem is None:
            self._completed(running)
        elif running.interrupted:
            self._interrupted(trial, running.interrupted, running.iteration_s)
            self._queue.appendleft(trial)
        elif problem.kind is FailureKind.CHECKPOINT and running.run.restores:
            self._drop_checkpoint(running, problem)
        elif problem.kind is FailureKind.STORE:
            self._unstored(trial, problem, running.iteration_s)
        elif problem.kind is FailureKind.DIED:
            self._interrupted(trial, problem.cause, running.iteration_s)
            clock = self._setting.clock
            timer = clock.call_at(clock.now() + DOUBT_S, lambda: self._blame(trial))
            self._doubts[trial] = _Doubt(running=running, failure=problem, timer=timer)
            return
        elif problem.kind is FailureKind.RAISED:
            self._fail(trial, problem)
        else:
            self._try_again(trial, problem, running.iteration_s)
        self._places.give_back(running.place)
        self._let_go(running.place.nodes)
        self._advance()

    def barrier(self) -> None:
        """Decide the stage; the next one is due then, if there is one.

        Raises:
            TrialFailure: no trial of the stage is left, or none has a score, and the run is to end then.
            PluginConflict: a plugin promoted trials that are not there.
        """
        journal, stage = self._setting.journal, self.stage
        hopeless = self._check_scores(stage)
        if stage == 0:
            self._check_config_read()
        decision = self._bracket.decide(() if hopeless and stage + 1 < len(self._stages) else None)
        journal.write(
            StageEnded,
            chain=self.number,
            stage=stage,
            survivors=decision.survivors,
            stopped=decision.stopped,
        )
        for trial in (*decision.stopped, *self._failed_here, *self._left_here):
            for checkpoint in tuple(journal.state.trials[trial].checkpoints):
                remove(self._setting, trial, checkpoint.path)
        if self.finished:
            self.done = True
        else:
            self.due = decision.survivors

    @property
    def _waiting(self) -> int:
        """How many trials are to have another place: those in the queue, and those that are about to be."""
        return len(self._queue) + sum(bool(running.interrupted) for running in self.running.values())

    @property
    def _instance_type(self) -> InstanceType:
        return self._setting.request.problem.cloud.instance_type(self.allocations[self.stage].instance_type)

    def _settle(self, trials: tuple[int, ...], surplus: str = NOT_NEXT) -> None:
        """Have the stage's nodes, and start these trials as there is room; `surplus` says why other nodes go."""
        allocation = self.allocations[self.stage]
        self._at_barrier = self._moving = False
        self._cluster.trains = lambda: bool(self.running or self._doubts)
        self._cluster.resize(
            self._instance_type, allocation.nodes, chain=self.number, stage=self.stage, surplus=surplus
        )
        self._queue.extend(trials)
        self._places = Places(
            Placement(
                trials=self._stages[self.stage].trials,
                slots_per_trial=allocation.slots_per_trial,
                node_slots=self._instance_type.slots,
                nodes=allocation.nodes,
            )
        )
        for node in self._cluster.usable:
            self._places.add(node.name, node.slots)
        self._advance()

    def _advance(self) -> None:
        """Start what can start; go to the barrier when nothing is left to start or to wait for."""
        if self._moving:
            self._moved()
            return
        while self._queue:
            if self._passed(self._queue[0]):
                self._pause(self._queue.popleft(), None)
                continue
            place = self._places.take()
            if place is None:
                self._exchange()
                return
            self._start(self._queue.popleft(), place)
        self._exchange()
        if self._cluster.failures and not self._waiting:
            # What could not be had so far is of no use to this stage any more.
            self._cluster.want(self._cluster.serving)
        if self._setting.request.problem.policies.early_release:
            self._spare()
        if self.running or self._doubts or self._at_barrier:
            return
        self._at_barrier = True
        clock, inbox = self._setting.clock, self._setting.inbox
        over = BarrierReached(chain=self.number)
        if self._setting.request.sync_s > 0:
            clock.call_at(clock.now() + self._setting.request.sync_s, lambda: inbox.put(over))
        else:
            inbox.put(over)

    def _exchange(self) -> None:
        """Have trials leave the nodes that others are to take the place of, as far as they find room on those.

        Where `max_nodes` leaves no room for others beside them, they go first.
        """
        parting = [node.name for node in self._cluster.usable if node.parting] if self.running else []
        for name in parting:
            on_it = [running for running in self.running.values() if name in running.place.nodes]
            together = dict.fromkeys([name, *(other for running in on_it for other in running.place.nodes)])
            going = [other for other in together if other in parting and not self._leaves(other)]
            if name not in going:
                continue
            crowded = self._cluster.crowded
            if self._waiting + len(on_it) > self._places.free_beside(parting) and not crowded:
                return
            grace_s = self._setting.request.grace_s + max((running.step_s for running in on_it), default=0.0)
            self._cluster.part(going, grace_s)
            for other in going:
                self._places.lose(other)
            for running in on_it:
                running.interrupt("its node is exchanged for one on demand", grace_s)
            self._let_go(going)
            if crowded:
                return

    def _leaves(self, name: str) -> bool:
        return all(node.name != name for node in self._cluster.usable)

    def _spare(self) -> None:
        """Give back what has fallen idle, with nothing left to start, as far as the next stage does not keep it."""
        if self._waiting or self._doubts:
            # Trials that are about to look for another place may find it there.
            return
        following = self._following()
        kept = following.nodes if following and following.instance_type == self._instance_type.name else 0
        # One that is still starting is no stand-in for one that could begin the next stage at once.
        surplus = len(self._cluster.usable) - kept
        busy = {name for running in self.running.values() for name in running.place.nodes}
        idle = [node.name for node in self._cluster.usable if node.name not in busy][: max(0, surplus)]
        if idle:
            for name in idle:
                self._places.lose(name)
            self._cluster.want(self._cluster.serving - len(idle))
            self._cluster.release(idle, f"idle, and {NOT_NEXT if following else 'nothing is left to run on it'}")

    def _following(self) -> StageAllocation | None:
        """What the stage after this one is allocated."""
        if self.stage + 1 < len(self._stages):
            return self.allocations[self.stage + 1]
        return self.follower.allocations[0] if self.follower else None

    def _moved(self) -> None:
        """Lay out the stage anew once all its trials have ended under the old allocation."""
        if not self.running and not self._doubts:
            trials = tuple(self._queue)
            self._queue.clear()
            self._settle(trials, "not needed by the new plan")

    def _passed(self, trial: int) -> bool:
        """Whether a trial had saved the end of its stage, with a score, before its start was cut short."""
        state = self._setting.journal.state.trials[trial]
        last, end = state.last_checkpoint, self._ends[self.stage]
        return last is not None and last.iterations == end and end in state.scores

    def _start(self, trial: int, place: Place) -> None:
        spans = len(place.nodes) > 1
        slow = self._setting.request.problem.profile.slowdown(spans=spans, speed=self._instance_type.speed)
        run = self._trial_run(trial, place)
        before = self._ends[run.stage] - self._stages[run.stage].iterations
        try:
            self.running[trial] = RunningTrial(
                self._setting, run, place, chain=self.number, stage_from=before, slow=slow
            )
        except LaunchFailure as error:
            self._places.give_back(place)
            cause = f"could not be started: {error}"
            self._try_again(trial, TrialFailure(trial=trial, rank=0, cause=cause, kind=FailureKind.UNSTARTED))

    def _trial_run(self, trial: int, place: Place) -> TrialRun:
        request, stage = self._setting.request, self.stage
        checkpoint = self._setting.journal.state.trials[trial].last_checkpoint
        return TrialRun(
            trial=trial,
            stage=stage,
            config=request.configs[trial],
            slots=place.slots,
            from_iteration=checkpoint.iterations if checkpoint else 0,
            to_iteration=self._ends[stage],
            max_iterations=self._ends[-1],
            checkpoint=Path(checkpoint.path) if checkpoint and request.depot is None else None,
            storage=request.storage,
            logs=request.logs / f"trial-{trial:04d}",
            seed=request.seed,
            checkpoint_every_s=request.checkpoint_every_s,
            env=request.env,
            depot=request.depot,
            deposited=checkpoint.path if checkpoint and request.depot is not None else "",
        )

    def _completed(self, running: RunningTrial) -> None:
        if running.run.stage == 0:
            self._read_keys.append(running.read_keys)
        self._failures.succeeded()
        self._pause(running.run.trial, running.iteration_s)

    def _pause(self, trial: int, iteration_s: float | None) -> None:
        """The trial has ended its stage."""
        end = self._ends[self.stage]
        journal = self._setting.journal
        journal.write(TrialPaused, trial=trial, stage=self.stage, iterations=end, iteration_s=iteration_s)
        score = journal.state.trials[trial].score
        self._bracket.report(trial, end, math.nan if score is None else score)

    def _interrupted(self, trial: int, cause: str, iteration_s: float | None = None) -> None:
        """The trial's processes are gone before the end of its stage; it is to go on from its last checkpoint."""
        self._setting.journal.write(
            TrialInterrupted, trial=trial, stage=self.stage, cause=cause, iteration_s=iteration_s
        )

    def _drop_checkpoint(self, running: RunningTrial, problem: TrialFailure) -> None:
        journal, trial = self._setting.journal, running.run.trial
        journal.write(CheckpointLost, trial=trial, checkpoint=running.run.restores, cause=problem.cause)
        last = journal.state.trials[trial].last_checkpoint
        again = f"iteration {last.iterations}" if last else "its first iteration"
        journal.warn(f"a checkpoint of trial {trial} cannot be read; it goes on from {again}: {problem.cause}")
        self._interrupted(trial, problem.cause)
        self._queue.appendleft(trial)

    def _unstored(self, trial: int, problem: TrialFailure, iteration_s: float | None) -> None:
        """Go on with the trial while it has attempts left; else the run ends, since the other trials fare alike."""
        self._interrupted(trial, problem.cause, iteration_s)
        if self._attempts[trial] >= self._setting.request.retries:
            raise StoreFailure(f"trial {trial} cannot go on without its checkpoints: {problem.cause}")
        self._attempts[trial] += 1
        self._setting.journal.warn(f"trial {trial} is started again: {problem.cause}")
        self._queue.appendleft(trial)

    def _excuse(self, node: HeldNode) -> None:
        """The processes that vanished on this node did so with it."""
        for trial in [t for t, doubt in self._doubts.items() if node.name in doubt.running.place.nodes]:
            doubt = self._doubts.pop(trial)
            doubt.timer.cancel()
            self._queue.appendleft(trial)
            self._places.give_back(doubt.running.place)

    def _blame(self, trial: int) -> None:
        """No node was lost: the trial's processes ended for a reason of their own."""
        doubt = self._doubts.pop(trial)
        if self._may_try_again(trial, doubt.failure):
            self._queue.appendleft(trial)
        self._places.give_back(doubt.running.place)
        self._let_go(doubt.running.place.nodes)
        self._advance()

    def _try_again(self, trial: int, failure: TrialFailure, iteration_s: float | None = None) -> None:
        """Go on with the trial while it has attempts left; else it has failed for good."""
        if self._may_try_again(trial, failure):
            self._interrupted(trial, failure.cause, iteration_s)
            self._queue.appendleft(trial)

    def _may_try_again(self, trial: int, failure: TrialFailure) -> bool:
        """Whether the trial had an attempt left, which is spent now; if not, it has failed for good."""
        if self._attempts[trial] >= self._setting.request.retries:
            self._fail(trial, failure)
            return False
        self._attempts[trial] += 1
        self._setting.journal.warn(f"trial {trial} is started again: {failure.cause}")
        return True

    def _fail(self, trial: int, failure: TrialFailure) -> None:
        self._failed_here[trial] = failure
        journal = self._setting.journal
        journal.write(TrialFailed, trial=trial, stage=self.stage, rank=failure.rank, cause=failure.cause)
        journal.warn(f"trial {trial} failed and leaves the run: {failure.cause}")
        self._bracket.fail(trial)
        first = self._failures.failed(failure)
        if first is not None:
            raise first

    def _leave(self, trial: int, cause: str) -> None:
        self._left_here.append(trial)
        self._setting.journal.write(TrialLeft, trial=trial, stage=self.stage, cause=cause)
        self._failures.succeeded()
        self._bracket.fail(trial)

    def _make_up(self) -> None:
        """Ask for what the stage lacks, or for nothing more where it has room enough."""
        if self._at_barrier or self._moving:
            return
        if self._waiting > self._places.free:
            self._cluster.refill()
        else:
            self._cluster.want(self._cluster.serving)

    def _let_go(self, nodes: Sequence[str]) -> None:
        """Give those nodes back that are about to be taken away and on which nothing runs any more."""
        busy = {name for running in self.running.values() for name in running.place.nodes}
        self._cluster.let_go([name for name in nodes if name not in busy])
        if any(name not in self._cluster for name in nodes):
            # Their going may have made room for others.
            self._make_up()

    def _check_scores(self, stage: int) -> bool:
        """Whether there is no score to go by, and yet the run is to go on without the chain."""
        trials, live = self._setting.journal.state.trials, self.alive
        bears = self._setting.request.hopeless_after is None
        if not live and (bears or self._left_here):
            return True
        if not live:
            raise next(iter(self._failed_here.values()))
        scores = [trials[t].score for t in live]
        if not all(score is not None and math.isnan(score) for score in scores):
            return False
        if bears:
            return True
        raise TrialFailure(
            trial=live[0],
            rank=0,
            cause=f"its score ({self._setting.request.metric}) is NaN, and so is that of every trial of stage "
            f"{stage}; report a finite score, or narrow the search space",
        )

    def _stage_trials(self) -> tuple[int, ...]:
        state = self._setting.journal.state
        return next(s.trials for s in reversed(state.stages) if s.chain == self.number)

    def _check_config_read(self) -> None:
        """Warn when no trial of the first stage has read some part of its configuration."""
        space = {key for trial in self._trials for key in self._setting.request.configs[trial]}
        known = [keys for keys in self._read_keys if keys is not None]
        if not space or not known or len(known) < len(self._read_keys):
            return
        unread = sorted(space - frozenset().union(*known))
        if len(unread) == len(space):
            self._setting.journal.warn(
                f"the training function never read its configuration ({', '.join(unread)}): "
                "all trials train alike; use the values in config"
            )
        elif unread:
            self._setting.journal.warn(
                f"the training function never read {', '.join(unread)} of its configuration; "
                "use it or take it out of the search space"
            )
