"""Trials that failed, and when a run has seen enough of them."""

from __future__ import annotations

from rb_core.errors import TrialFailure


class Failures:
    """Counts failures that look like a fault of the training function itself.

    A function that fails for every configuration would fail for all of them, at the full price of the first stage.
    """

    def __init__(self, hopeless_after: int | None) -> None:
        self._hopeless_after = hopeless_after
        self._alike: list[TrialFailure] = []
        self._hope = False

    def succeeded(self) -> None:
        """A trial ended a stage: from now on failures are a matter of single configurations."""
        self._hope = True

    def failed(self, failure: TrialFailure) -> TrialFailure | None:
        """Count a failure; the first one is returned when it is time to end the run for it."""
        if self._hope or self._hopeless_after is None:
            return None
        self._alike.append(failure)
        if any(other.cause != failure.cause for other in self._alike):
            self._hope = True
            return None
        return self._alike[0] if len(self._alike) >= self._hopeless_after else None
