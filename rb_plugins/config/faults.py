"""Faults files: what goes wrong in a rehearsal."""

from __future__ import annotations

from pathlib import Path

from rb_core.sim.faults import Faults
from rb_plugins.config.shape import shaped
from rb_plugins.config.source import naming, read_table


def load_faults(path: Path) -> Faults:
    """The faults in a file; every key is optional, and what is absent never happens.

    Raises:
        InvalidInput: the file is wrong, with its name as a note.
    """
    with naming(path):
        return read_faults(read_table(path))


def read_faults(data: object) -> Faults:
    """The faults that plain values stand for.

    Raises:
        InvalidInput: they are none; the key's path is named.
    """
    return shaped(Faults, data)
