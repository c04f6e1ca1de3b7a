"""Optuna studies on rubberband-tune: trials that wait for each other at rungs, and share slots elastically."""

from rb_optuna.executor import RubberBandExecutor
from rb_optuna.pruner import RubberBandPruner
from rb_optuna.sampler import RubberBandSampler
from rb_optuna.session import Session, session

__all__ = ["RubberBandExecutor", "RubberBandPruner", "RubberBandSampler", "Session", "session"]
