"""The plugins of one process behind typed methods: what they register is merged, what they answer is checked."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pluggy

from rb_core.errors import InvalidInput, PlanVeto, PluginConflict
from rb_plugins import hookspecs

if TYPE_CHECKING:  # a shell that completes a name cannot wait for what it does not use
    from rb_core.events import Event
    from rb_core.hardware import InstanceType
    from rb_core.plan import AllocationPlan
    from rb_core.profile import ScalingProfile
    from rb_core.simulate import Estimate
    from rb_core.spec import ExperimentSpec
    from rb_plugins.factories import (
        DepotFactory,
        EstateFactory,
        LauncherFactory,
        PlannerFactory,
        PriceBookFactory,
        ProviderFactory,
    )

PROJECT = "rubberband"
"""Name of the hooks' project and of the entry points' group."""

BLOCK_VARIABLE = "RB_BLOCK_PLUGINS"
"""Names of plugins, separated by commas, that are not loaded."""

Factory = TypeVar("Factory")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReport:
    """One plugin, as `rb-tune plugins` shows it.

    Attributes:
        name: its name among the entry points.
        distribution: name and version of the package that it came with; empty for one that was handed in.
        hooks: the hooks that it implements.
        problem: why it is not in use, or what went wrong in it; empty when all is well.
    """

    name: str
    distribution: str = ""
    hooks: tuple[str, ...] = ()
    problem: str = ""


class Registry(Mapping[str, Factory], Generic[Factory]):
    """Factories by name, each with the plugin that it came from."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._entries: dict[str, tuple[Factory, str]] = {}

    def __getitem__(self, name: str) -> Factory:
        return self._entries[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def plugin(self, name: str) -> str:
        """Name of the plugin that gave this name."""
        return self._entries[name][1]

    def add(self, name: str, factory: Factory, plugin: str) -> None:
        """Take one entry in.

        Raises:
            PluginConflict: the name is taken.
        """
        if name in self._entries:
            raise PluginConflict(
                f"the {self._noun} {name!r} is registered by both plugin {self.plugin(name)} and plugin {plugin}; "
                f"block one of them with {BLOCK_VARIABLE}"
            )
        self._entries[name] = (factory, plugin)

    def choose(self, name: str, *, key: str) -> Factory:
        """The factory of that name.

        Raises:
            InvalidInput: no plugin gave this name; the message lists those that there are, under `key`.
        """
        if name not in self._entries:
            known = ", ".join(sorted(self._entries)) or "none"
            raise InvalidInput(key, f"must be the name of a {self._noun} ({known}), got {name!r}")
        return self[name]


class Manager:
    """Plugins and what they have to say. Made by `make_manager`."""

    def __init__(self) -> None:
        self._pm = pluggy.PluginManager(PROJECT)
        self._pm.add_hookspecs(hookspecs)
        self._distributions: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def register(self, plugin: object, name: str, *, distribution: str = "") -> None:
        """Take a plugin in.

        Args:
            plugin: a module or object whose functions carry `hookimpl`.
            name: what it is called in messages and blocked by.
            distribution: the package that it came with.

        Raises:
            PluginConflict: the name is taken, or a function of it does not fit its hook.
        """
        try:
            self._pm.register(plugin, name)
        except ValueError as error:
            raise PluginConflict(f"plugin {name}: a plugin of this name, or this object, is there: {error}") from None
        except pluggy.PluginValidationError as error:
            self._pm.unregister(name=name)
            raise PluginConflict(f"plugin {name}: {error}") from None
        try:
            self._check(plugin, name)
        except PluginConflict:
            self._pm.unregister(name=name)
            raise
        self._distributions[name] = distribution

    def load(self, entry: EntryPoint, *, blocked: Iterable[str] = ()) -> None:
        """Load and take in the plugin of one entry point; one that is broken is noted and passed over."""
        distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
        if entry.name in blocked:
            self._note(entry.name, f"blocked by {BLOCK_VARIABLE}", distribution)
            return
        try:
            self.register(entry.load(), entry.name, distribution=distribution)
        except PluginConflict as error:
            self._note(entry.name, str(error), distribution)
        except (Exception, SystemExit) as error:
            self._note(entry.name, f"could not be loaded: {_words(error)}", distribution)

    def reports(self) -> tuple[PluginReport, ...]:
        """Every plugin, those in use first, in the order of their registration."""
        in_use = [name for name, plugin in self._pm.list_name_plugin() if plugin is not None]
        reports = []
        for name in [*in_use, *(name for name in self._problems if name not in in_use)]:
            callers = self._pm.get_hookcallers(self._pm.get_plugin(name)) if name in in_use else None
            reports.append(
                PluginReport(
                    name=name,
                    distribution=self._distributions.get(name, ""),
                    hooks=tuple(sorted(caller.name for caller in callers or ())),
                    problem=self._problems.get(name, ""),
                )
            )
        return tuple(reports)

    def providers(self) -> Registry[ProviderFactory]:
        """Provider factories by name."""
        return self._merged("rubberband_register_providers", Registry("provider"))

    def launchers(self) -> Registry[LauncherFactory]:
        """Launcher factories by name."""
        return self._merged("rubberband_register_launchers", Registry("launcher"))

    def planners(self) -> Registry[PlannerFactory]:
        """Planner factories by name."""
        return self._merged("rubberband_register_planners", Registry("planner"))

    def price_books(self) -> Registry[PriceBookFactory]:
        """Price book factories by the name of their catalogue."""
        return self._merged("rubberband_register_price_books", Registry("catalogue"))

    def estates(self) -> Registry[EstateFactory]:
        """Estate factories by the names of their providers."""
        return self._merged("rubberband_register_estates", Registry("provider with an estate"))

    def depots(self) -> Registry[DepotFactory]:
        """Depot factories by the scheme of their addresses."""
        return self._merged("rubberband_register_depots", Registry("store of checkpoints"))

    def profile(self, spec: ExperimentSpec, instance: InstanceType) -> ScalingProfile | None:
        """A profile that a plugin knows already; None sends the caller to the profiler.

        Raises:
            PluginConflict: a plugin raised, or answered something else.
        """
        from rb_core.profile import ScalingProfile

        answer = self._first("rubberband_profile", spec=spec, instance=instance)
        if answer is not None and not isinstance(answer, ScalingProfile):
            raise PluginConflict(
                f"rubberband_profile must answer a ScalingProfile or None, got {type(answer).__name__}"
                f" ({self._asked('rubberband_profile')})"
            )
        return answer

    def promote(self, spec: ExperimentSpec, stage: int, scores: Mapping[int, float]) -> tuple[int, ...] | None:
        """The trials that a plugin wants to go on after a stage; None leaves it to the scores.

        Args:
            spec: the experiment, as one chain.
            stage: the stage that has ended.
            scores: score of every trial that ended it; the larger is the better one, whatever the run's mode.

        Raises:
            PluginConflict: a plugin raised, answered a wrong number of trials, one twice, or one that was not asked.
        """
        answer = self._first("rubberband_promote", spec=spec, stage=stage, scores=dict(scores))
        if answer is None:
            return None
        chain = spec.chains[0]
        wanted = min(chain[stage + 1].trials if stage + 1 < len(chain) else 0, len(scores))
        chosen = tuple(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else None
        if chosen is None or len(chosen) != wanted or len(set(chosen)) != wanted or not set(chosen) <= set(scores):
            raise PluginConflict(
                f"rubberband_promote must answer {wanted} different trials out of {sorted(scores)} after stage "
                f"{stage}, got {answer!r} ({self._asked('rubberband_promote')})"
            )
        return chosen

    def veto(self, spec: ExperimentSpec, plan: AllocationPlan, estimate: Estimate) -> None:
        """Ask every plugin whether the run may start. One that raises has not agreed.

        Raises:
            PlanVeto: a plugin gave a reason against it.
        """
        for plugin, function in self._functions("rubberband_veto"):
            try:
                reason = function(spec=spec, plan=plan, estimate=estimate)
            except Exception as error:
                raise PlanVeto(plugin, f"it failed on the question: {_words(error)}") from error
            if reason is not None:
                raise PlanVeto(plugin, str(reason))

    def observers(self) -> tuple[Callable[[Event], None], ...]:
        """One function for each plugin that wants to know of events; what a plugin raises is noted and goes on up."""
        return tuple(self._observer(plugin, function) for plugin, function in self._functions("rubberband_event"))

    def _observer(self, plugin: str, function: Callable[..., Any]) -> Callable[[Event], None]:
        def tell(event: Event) -> None:
            try:
                function(event=event)
            except Exception as error:
                self._note(plugin, f"rubberband_event raised {_words(error)}")
                raise

        tell.__qualname__ = f"rubberband_event of plugin {plugin}"
        return tell

    def _merged(self, hook: str, registry: Registry[Factory]) -> Registry[Factory]:
        for plugin, function in self._functions(hook):
            try:
                answer = function()
                if not isinstance(answer, Mapping) or not all(
                    isinstance(name, str) and callable(factory) for name, factory in answer.items()
                ):
                    raise TypeError(f"must answer a mapping of names to factories, got {answer!r}")
            except Exception as error:
                if self._note(plugin, f"{hook} failed: {_words(error)}"):
                    _log.warning("plugin %s: %s failed: %s; its names are left out", plugin, hook, _words(error))
                continue
            for name, factory in answer.items():
                registry.add(name, factory, plugin)
        return registry

    def _functions(self, hook: str) -> list[tuple[str, Callable[..., Any]]]:
        caller: pluggy.HookCaller = getattr(self._pm.hook, hook)
        return [(impl.plugin_name, impl.function) for impl in caller.get_hookimpls()]

    def _first(self, hook: str, **arguments: object) -> Any:
        try:
            return getattr(self._pm.hook, hook)(**arguments)
        except Exception as error:
            raise PluginConflict(f"{hook} raised {_words(error)} ({self._asked(hook)})") from error

    def _asked(self, hook: str) -> str:
        return "implemented by plugin " + ", ".join(plugin for plugin, _ in reversed(self._functions(hook)))

    def _check(self, plugin: object, name: str) -> None:
        try:
            self._pm.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginConflict(f"plugin {name}: {error}") from None
        for caller in self._pm.get_hookcallers(plugin) or ():
            wanted = list(inspect.signature(getattr(hookspecs, caller.name)).parameters)
            for impl in caller.get_hookimpls():
                if impl.plugin is not plugin:
                    continue
                given = list(inspect.signature(impl.function).parameters)
                if sorted(given) != sorted(wanted):
                    raise PluginConflict(
                        f"plugin {name}: {caller.name} must take ({', '.join(wanted)}), got ({', '.join(given)})"
                    )
                if (impl.wrapper or impl.hookwrapper) and caller.name not in _FIRST_RESULT:
                    raise PluginConflict(f"plugin {name}: {caller.name} is asked plugin by plugin and takes no wrapper")

    def _note(self, name: str, problem: str, distribution: str = "") -> bool:
        """Keep a plugin's first problem; False when there is one already."""
        if distribution:
            self._distributions.setdefault(name, distribution)
        return self._problems.setdefault(name, problem) is problem


_FIRST_RESULT = frozenset({"rubberband_profile", "rubberband_promote"})


def make_manager(*, autoload: bool = True, plugins: Iterable[object] = ()) -> Manager:
    """The built-in plugins, those of all installed packages, and those handed in, in this order.

    Args:
        autoload: whether to load the entry points of the group ``rubberband``. One that is broken, or blocked by
            the environment's RB_BLOCK_PLUGINS, shows in `Manager.reports` and stops nothing.
        plugins: modules or objects with `hookimpl` functions.

    Raises:
        PluginConflict: one of `plugins` does not fit.
    """
    from rb_plugins import builtins

    manager = Manager()
    manager.register(builtins, "builtins", distribution="rubberband-tune")
    if autoload:
        blocked = {name.strip() for name in os.environ.get(BLOCK_VARIABLE, "").split(",")}
        for entry in sorted(entry_points(group=PROJECT), key=lambda entry: entry.name):
            manager.load(entry, blocked=blocked)
    for number, plugin in enumerate(plugins):
        manager.register(plugin, getattr(plugin, "__name__", f"{type(plugin).__name__}-{number}"))
    return manager


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
