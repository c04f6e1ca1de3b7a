"""The framework-free core of rubberband-tune: model, planners, profiler, engine, launchers and providers.

Names are loaded when they are first used, so that importing the package costs next to nothing and pulls in neither
torch nor any host.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rb_core.billing import bill as bill
    from rb_core.bracket import Bracket as Bracket
    from rb_core.clock import ManualClock as ManualClock
    from rb_core.clock import SystemClock as SystemClock
    from rb_core.dag import ExecutionDAG as ExecutionDAG
    from rb_core.engine import Engine as Engine
    from rb_core.errors import InvalidInput as InvalidInput
    from rb_core.errors import NoFeasiblePlan as NoFeasiblePlan
    from rb_core.errors import RubberBandError as RubberBandError
    from rb_core.hardware import Billing as Billing
    from rb_core.hardware import BillingMode as BillingMode
    from rb_core.hardware import Cloud as Cloud
    from rb_core.hardware import InstanceType as InstanceType
    from rb_core.hardware import Latency as Latency
    from rb_core.placement import Placement as Placement
    from rb_core.plan import AllocationPlan as AllocationPlan
    from rb_core.plan import Objective as Objective
    from rb_core.plan import Problem as Problem
    from rb_core.plan import StageAllocation as StageAllocation
    from rb_core.profile import ScalingProfile as ScalingProfile
    from rb_core.simulate import Estimate as Estimate
    from rb_core.spec import ExperimentSpec as ExperimentSpec
    from rb_core.spec import Stage as Stage
    from rb_core.trial import Trial as Trial

_HOME = {
    "AllocationPlan": "plan",
    "Billing": "hardware",
    "BillingMode": "hardware",
    "Bracket": "bracket",
    "Cloud": "hardware",
    "Engine": "engine",
    "Estimate": "simulate",
    "ExecutionDAG": "dag",
    "ExperimentSpec": "spec",
    "InstanceType": "hardware",
    "InvalidInput": "errors",
    "Latency": "hardware",
    "ManualClock": "clock",
    "NoFeasiblePlan": "errors",
    "Objective": "plan",
    "Placement": "placement",
    "Problem": "plan",
    "RubberBandError": "errors",
    "ScalingProfile": "profile",
    "Stage": "spec",
    "StageAllocation": "plan",
    "SystemClock": "clock",
    "Trial": "trial",
    "bill": "billing",
}

__all__ = sorted(_HOME)


# Type checkers know the names from above: to them any other is a mistake.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name from its module."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
