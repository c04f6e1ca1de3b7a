"""What users are told in the course of a run: each thing once."""

from __future__ import annotations

import logging
from collections.abc import Mapping

_logger = logging.getLogger(__name__)


class Remarks:
    """Says things through Python's logging, as Tune does."""

    def __init__(self) -> None:
        """Nothing has been said."""
        self._said: set[str] = set()

    def once(self, key: str, text: str) -> None:
        """Say something unless the like, by its key, has been said."""
        if key not in self._said:
            self._said.add(key)
            _logger.warning("%s", text)

    def price(self, again: Mapping[int, int], *, unit: str, unit_s: float | None, next_rung: int) -> None:
        """Say what it costs that trials went on from an older checkpoint than the rung's, or from none.

        Args:
            again: what each of these trials will do again, in units.
            unit: what rungs are measured in.
            unit_s: how long one takes, as far as that is known.
            next_rung: where the next checkpoint is due.
        """
        if not again:
            return
        total = sum(again.values())
        price = "" if unit_s is None else f", about {total * unit_s:.3g} s of training"
        _logger.warning(
            "%d trial(s) go on without a checkpoint of the rung where they were paused, so %d %s will be run again%s. "
            "Report a checkpoint at every rung; the next one lies at %d.",
            len(again),
            total,
            unit,
            price,
            next_rung,
        )
