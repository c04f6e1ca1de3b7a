"""The engine: runs a plan over ports, on a clock, driven by one inbox. It never polls and never sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from rb_core.bracket import Bracket, Promote
from rb_core.dag import ExecutionDAG
from rb_core.engine.loop import Loop, TimeUp, numbered
from rb_core.engine.removal import Removal
from rb_core.engine.request import RunRequest
from rb_core.engine.resumption import resumption
from rb_core.engine.retention import superseded
from rb_core.engine.running import OnMessage, Remove, Setting, erase, remove
from rb_core.errors import RunInterrupted, StoreFailure
from rb_core.eventlog import Log
from rb_core.events import CheckpointDeleted, Event, RunEnded, RunEnding, RunResumed, RunStarted, TrialCreated
from rb_core.journal import Journal, Observer
from rb_core.learning import Learning
from rb_core.markets import check_markets
from rb_core.plainjson import plain
from rb_core.ports import Clock, Inbox, Launcher, Provider
from rb_core.spec import Chain, ExperimentSpec
from rb_core.state import RunState, TrialPhase
from rb_core.training import checkpoint

_OUT = (TrialPhase.STOPPED, TrialPhase.FAILED, TrialPhase.LEFT)

PromoteHook = Callable[[ExperimentSpec, int, Mapping[int, float]], Sequence[int] | None]
"""Told one chain as an experiment, the stage and its scores, answers who goes on, best first; None: as built in."""


class Engine:
    """Runs one plan at a time over the ports that it was given."""

    def __init__(
        self,
        *,
        provider: Provider,
        launcher: Launcher,
        clock: Clock,
        inbox: Inbox,
        log: Log,
        observers: Sequence[Observer] = (),
        promote: PromoteHook | None = None,
        on_message: OnMessage | None = None,
        remove: Remove = checkpoint.delete,
    ) -> None:
        """An engine that has not begun.

        Args:
            provider: where nodes come from; it puts its notices into `inbox`.
            launcher: what starts trials; entered for the time of the run.
            clock: the time of everything.
            inbox: where all notices arrive, made by `clock`.
            log: where events are written before they are acted on; left open.
            observers: told each event after it was written.
            promote: asked first for the survivors of a stage.
            on_message: answers messages of ranks that the engine does not know.
            remove: removes a checkpoint; the depot does, where the request has one.
        """
        self._provider = provider
        self._launcher = launcher
        self._clock = clock
        self._inbox = inbox
        self._log = log
        self._observers = observers
        self._promote = promote
        self._on_message = on_message
        self._remove = remove

    def run(self, request: RunRequest) -> RunState:
        """Run a plan to its end; every node has been given back when this returns or raises.

        Raises:
            InvalidInput: plan, problem and provider do not fit each other; nothing was started.
            TrialFailure: no trial of a stage is left, or all fail alike.
            LaunchFailure: no node can be had, or too many were lost in a row.
            BudgetExceeded: going on would exceed `max_usd`.
            UnusableLog: the log can no longer be written.
            PluginConflict: a promotion is against its contract.
            LeakedNodes: the provider still owns nodes of the run.
            RunInterrupted: the user stopped it.
        """
        ExecutionDAG.build(request.problem, request.plan)
        check_markets(request.problem.cloud)
        self._provider.check(request.problem.cloud)
        journal = Journal(self._log, self._clock, self._observers)
        removal = self._removal(request, journal)
        setting = self._setting(request, journal, removal or self._remove)
        loop = Loop(setting, self._provider, request.plan, self._brackets(request))
        with self._ending(journal), removal or nullcontext():
            loop.run(lambda: self._announce(request, journal))
            _sweep_depot(setting)
        return journal.state

    def resume(self, request: RunRequest, history: Sequence[Event]) -> RunState:
        """Go on with a run whose process was killed, or that ended before its work was done.

        Args:
            request: the run; its problem's objective, `max_usd` and the like may have changed, its plan is the one that
                the run started with.
            history: all events of the log, which the run goes on writing to.

        Raises:
            UnusableLog: the log is not whole, or the run has come to its end; nothing was started.
            RubberBandError: as `run`.
        """
        check_markets(request.problem.cloud)
        self._provider.check(request.problem.cloud)
        brackets = self._brackets(request)
        before = resumption(history, brackets, self._clock)
        journal = Journal(self._log, self._clock, self._observers, state=before.state, t_s=before.t_s)
        removal = self._removal(request, journal)
        setting = self._setting(request, journal, removal or self._remove)
        plan = before.plan(request.plan)
        loop = Loop(setting, self._provider, plan, brackets)
        with self._ending(journal), removal or nullcontext():
            loop.run(lambda: self._take_up(setting, history), resumed=True)
            _sweep_depot(setting)
        return journal.state

    def _removal(self, request: RunRequest, journal: Journal) -> Removal | None:
        return None if request.depot is None else Removal(request.depot, self._inbox, journal.warn)

    def _setting(self, request: RunRequest, journal: Journal, remove: Remove) -> Setting:
        return Setting(
            request=request,
            journal=journal,
            launcher=self._launcher,
            clock=self._clock,
            inbox=self._inbox,
            remove=remove,
            on_message=self._on_message,
            learning=Learning(request.problem.profile, request.problem.cloud),
        )

    def _brackets(self, request: RunRequest) -> dict[int, Bracket]:
        return {
            number: Bracket(chain, request.mode, _promotion(self._promote, chain))
            for number, chain in enumerate(request.problem.experiment.chains)
        }

    @contextmanager
    def _ending(self, journal: Journal) -> Iterator[None]:
        """Write how the run ended."""
        try:
            yield
        except KeyboardInterrupt:
            journal.attempt(RunEnded, ending=RunEnding.INTERRUPTED, reason="interrupted by its user")
            raise RunInterrupted(
                "the run was interrupted; every node has been given back, and it can be resumed"
            ) from None
        except TimeUp:
            journal.write(RunEnded, ending=RunEnding.DEADLINE, reason="its deadline came before its end")
        except BaseException as error:
            reason = str(error) or type(error).__name__
            journal.attempt(RunEnded, ending=RunEnding.FAILED, reason=reason)
            raise
        else:
            journal.write(RunEnded, ending=RunEnding.DONE)

    def _announce(self, request: RunRequest, journal: Journal) -> None:
        journal.write(
            RunStarted,
            run=request.run,
            problem=request.plain_record,
            plan=request.plan.record(request.problem.experiment),
            metric=request.metric,
            mode=request.mode,
            seed=request.seed,
            target=request.target,
            environment=dict(request.environment),
            clock=self._clock.origin,
            clock_s=self._clock.now(),
        )
        for warning in request.warnings:
            journal.warn(warning)
        self._create(request, journal)

    def _take_up(self, setting: Setting, history: Sequence[Event]) -> None:
        setting.journal.write(
            RunResumed,
            problem=setting.request.plain_record,
            environment=dict(setting.request.environment),
            clock=self._clock.origin,
            clock_s=self._clock.now(),
            run=setting.request.run,
            metric=setting.request.metric,
        )
        self._create(setting.request, setting.journal)
        _sweep(setting, history)

    def _create(self, request: RunRequest, journal: Journal) -> None:
        """Number the configurations that have no number yet."""
        chains = [chain for chain, own in enumerate(numbered(request.problem.experiment)) for _ in own]
        rows = [
            {"trial": trial, "chain": chain, "config": plain(request.configs[trial])}
            for trial, chain in enumerate(chains)
            if trial not in journal.state.trials
        ]
        journal.write_all(TrialCreated, rows)


def _promotion(hook: PromoteHook | None, chain: Chain) -> Promote | None:
    if hook is None:
        return None
    spec = ExperimentSpec(chains=(chain,))
    return lambda stage, scores: hook(spec, stage, scores)


def _sweep(setting: Setting, history: Sequence[Event]) -> None:
    """Remove the checkpoints whose removal was cut short, at whichever event."""
    state = setting.journal.state
    trials = state.trials.values()
    # A barrier removes what the failed trials of its stage have left: until then it may be the best that there is.
    undecided = {trial for stage in state.stages if stage.end_s is None for trial in stage.trials}
    if setting.request.depot is None:
        kept = _kept(state)
        deleted = dict.fromkeys(event.checkpoint for event in history if isinstance(event, CheckpointDeleted))
        for path in deleted:
            if path not in kept:
                erase(setting, path)
    else:
        _sweep_depot(setting)
    for trial in trials:
        out = trial.phase in _OUT and trial.trial not in undecided
        for old in tuple(trial.checkpoints) if out else superseded(trial, setting.request.mode):
            remove(setting, trial.trial, old.path)


def _sweep_depot(setting: Setting) -> None:
    """Remove what lies in the depot and the log does not know of, or not any more."""
    depot, kept = setting.request.depot, _kept(setting.journal.state)
    if depot is None:
        return
    try:
        found = depot.references()
    except StoreFailure as error:
        setting.journal.warn(f"what is left over in {depot.uri} could not be looked for: {error}")
        return
    for reference in found:
        if reference not in kept:
            erase(setting, reference)


def _kept(state: RunState) -> set[str]:
    return {checkpoint.path for trial in state.trials.values() for checkpoint in trial.checkpoints}
