"""One chain of stages while it runs: an object that knows its own stage, and nothing of other chains."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from rb_core.bracket import Bracket, Promote
from rb_core.cluster import Cluster, HeldNode
from rb_core.dag import Step
from rb_core.engine.failures import Failures
from rb_core.engine.places import Place, Places
from rb_core.engine.running import RunningTrial, Setting, remove
from rb_core.errors import LaunchFailure, TrialFailure
from rb_core.events import StageEnded, StageStarted, TrialFailed, TrialPaused
from rb_core.ports import Notice, TrialRun
from rb_core.trial import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierReached(Notice):
    """The barrier after a chain's stage is over."""

    chain: int


class ChainRun:
    """Runs the stages of one chain, told of everything that happens by the engine.

    A stage: its barrier opens, the cluster is resized, each trial in order takes the place that is usable and free
    earliest, and when all have ended, the bracket decides who goes on.
    """

    def __init__(
        self,
        setting: Setting,
        cluster: Cluster,
        failures: Failures,
        steps: Sequence[Step],
        trials: Sequence[int],
        promote: Promote | None = None,
    ) -> None:
        """A chain that has not begun.

        Args:
            setting: what it shares with the rest of the engine.
            cluster: its nodes.
            failures: failures of the whole run.
            steps: its stages.
            trials: numbers of its trials.
            promote: asked first for the survivors of a stage.
        """
        self.number = steps[0].chain
        self.done = False
        self.running: dict[int, RunningTrial] = {}
        self._setting = setting
        self._cluster = cluster
        self._failures = failures
        self._steps = steps
        self._ends = tuple(accumulate(step.iterations for step in steps))
        self._trials = tuple(trials)
        self._bracket = Bracket(setting.request.problem.experiment.chains[self.number], setting.request.mode, promote)
        self._queue: deque[int] = deque()
        self._places = Places(steps[0].placement)
        self._failed_here: dict[int, TrialFailure] = {}
        self._read_keys: list[frozenset[str] | None] = []
        self._at_barrier = False

    def open(self) -> None:
        """Begin the first stage."""
        self._open(self._trials)

    def joined(self, node: HeldNode) -> None:
        """A node became usable."""
        self._places.add(node.name, node.slots)
        self._advance()

    def lost(self, node: HeldNode) -> None:
        """A node is gone: its trials go on from their last checkpoints, on another one."""
        self._places.lose(node.name)
        for running in self.running.values():
            if node.name in running.place.nodes:
                running.on_lost_node = True
                running.handle.kill()
        if not self._at_barrier:
            self._cluster.replace(node)

    def told(self, trial: int, rank: int, message: Message) -> None:
        """A running trial said something."""
        running = self.running.get(trial)
        if running is not None:
            running.told(rank, message)

    def exited(self, trial: int, failure: TrialFailure | None) -> None:
        """All processes of a trial are gone."""
        running = self.running.pop(trial, None)
        if running is None:
            return
        running.left()
        problem = running.problem(failure)
        if problem is None:
            self._completed(running)
        elif running.on_lost_node:
            self._queue.appendleft(trial)
        else:
            self._fail(trial, problem)
        self._places.give_back(running.place)
        self._advance()

    def barrier(self) -> None:
        """Decide the stage, and begin the next one if there is one.

        Raises:
            TrialFailure: no trial of the stage is left, or none has a score.
            PluginConflict: a plugin promoted trials that are not there.
        """
        journal, stage = self._setting.journal, self._bracket.stage
        self._check_scores(stage)
        if stage == 0:
            self._check_config_read()
        decision = self._bracket.decide()
        journal.write(
            StageEnded,
            chain=self.number,
            stage=stage,
            survivors=decision.survivors,
            stopped=decision.stopped,
        )
        for trial in (*decision.stopped, *self._failed_here):
            for checkpoint in tuple(journal.state.trials[trial].checkpoints):
                remove(self._setting, trial, checkpoint.path)
        if stage + 1 == len(self._steps):
            self.done = True
        else:
            self._open(decision.survivors)

    def _open(self, trials: tuple[int, ...]) -> None:
        step = self._steps[self._bracket.stage]
        self._at_barrier = False
        self._failed_here = {}
        self._setting.journal.write(
            StageStarted,
            chain=self.number,
            stage=step.stage,
            trials=trials,
            instance_type=step.instance_type.name,
            nodes=step.placement.nodes,
            slots_per_trial=step.placement.slots_per_trial,
        )
        self._cluster.resize(step.instance_type, step.placement.nodes, chain=self.number)
        self._queue.extend(trials)
        self._places = Places(step.placement)
        for node in self._cluster.usable:
            self._places.add(node.name, node.slots)
        self._advance()

    def _advance(self) -> None:
        """Start what can start; go to the barrier when nothing is left to start or to wait for."""
        while self._queue:
            place = self._places.take()
            if place is None:
                return
            self._start(self._queue.popleft(), place)
        if self.running or self._at_barrier:
            return
        self._at_barrier = True
        setting = self._setting
        if setting.request.sync_s > 0:
            over = BarrierReached(chain=self.number)
            setting.clock.call_at(setting.clock.now() + setting.request.sync_s, lambda: setting.inbox.put(over))
        else:
            self.barrier()

    def _start(self, trial: int, place: Place) -> None:
        try:
            run = self._trial_run(trial, place)
            before = self._ends[run.stage] - self._steps[run.stage].iterations
            self.running[trial] = RunningTrial(self._setting, run, place, chain=self.number, stage_from=before)
        except LaunchFailure as error:
            self._places.give_back(place)
            self._fail(trial, TrialFailure(trial=trial, rank=0, cause=f"could not be started: {error}"))

    def _trial_run(self, trial: int, place: Place) -> TrialRun:
        request, stage = self._setting.request, self._bracket.stage
        checkpoint = self._setting.journal.state.trials[trial].last_checkpoint
        return TrialRun(
            trial=trial,
            stage=stage,
            config=request.configs[trial],
            slots=place.slots,
            from_iteration=checkpoint.iterations if checkpoint else 0,
            to_iteration=self._ends[stage],
            max_iterations=self._ends[-1],
            checkpoint=Path(checkpoint.path) if checkpoint else None,
            storage=request.storage,
            logs=request.logs / f"trial-{trial:04d}",
            seed=request.seed,
            checkpoint_every_s=request.checkpoint_every_s,
            env=request.env,
        )

    def _completed(self, running: RunningTrial) -> None:
        run = running.run
        self._setting.journal.write(TrialPaused, trial=run.trial, stage=run.stage, iterations=run.to_iteration)
        self._failures.succeeded()
        if run.stage == 0:
            self._read_keys.append(running.read_keys)
        score = self._setting.journal.state.trials[run.trial].score
        self._bracket.report(run.trial, run.to_iteration, math.nan if score is None else score)

    def _fail(self, trial: int, failure: TrialFailure) -> None:
        self._failed_here[trial] = failure
        journal = self._setting.journal
        journal.write(TrialFailed, trial=trial, stage=self._bracket.stage, rank=failure.rank, cause=failure.cause)
        journal.warn(f"trial {trial} failed and leaves the run: {failure.cause}")
        self._bracket.fail(trial)
        first = self._failures.failed(failure)
        if first is not None:
            raise first

    def _check_scores(self, stage: int) -> None:
        trials = self._setting.journal.state.trials
        live = [t for t in self._stage_trials() if t not in self._failed_here]
        if not live:
            raise next(iter(self._failed_here.values()))
        scores = [trials[t].score for t in live]
        if all(score is not None and math.isnan(score) for score in scores):
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
