"""Optuna's own public suite for samplers, where the installed Optuna has it (from 4.8 on)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest
from optuna.samplers import BaseSampler
from rb_optuna.sampler import RubberBandSampler

if importlib.util.find_spec("optuna.testing.pytest_samplers") is not None:
    from optuna.testing import pytest_samplers as suite

    class TestFromTheStart(
        suite.BasicSamplerTestCase,
        suite.RelativeSamplerTestCase,
        suite.SingleOnlySamplerTestCase,
    ):
        """As it is made by default."""

        @pytest.fixture
        def sampler(self) -> Callable[[], BaseSampler]:
            return RubberBandSampler

    class TestInBrackets(
        suite.BasicSamplerTestCase,
        suite.RelativeSamplerTestCase,
        suite.SingleOnlySamplerTestCase,
    ):
        """With a bracket, and never random once there is a model."""

        @pytest.fixture
        def sampler(self) -> Callable[[], BaseSampler]:
            return lambda: RubberBandSampler(seed=3, bracket_trials=4, random_fraction=0.0)
