"""What outlives the driver: Tune never saves a scheduler's state, so it is kept beside Tune's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rb_core.errors import InvalidInput, UnusableLog
from rb_core.plainjson import dumps, loads
from rb_core.plan import StageAllocation
from rb_ray.scheduling.rungs import Entry
from rb_ray.scheduling.seen import Stint

FILE = "rubberband_state.json"
"""In the driver's staging folder, from which Tune carries every ``*.json`` to the storage and, on restore, back."""

BEFORE = "rubberband_state.before.json"
"""What the file held before: Tune's copy of the newer one is cut short where the driver is killed meanwhile."""

SCHEMA = 1


@dataclass(slots=True, kw_only=True)
class Memory:
    """All that a run has to know when it goes on after `Tuner.restore`.

    Attributes:
        run: its id, by which its nodes are found again.
        began_utc: when its first trial came, in ISO 8601.
        terms: r, R, eta, mode, metric and time_attr of its rungs.
        numbers: of its trials, in the order of their arrival, by Tune's ids.
        log: of `rb_ray.scheduling.rungs.Rungs`.
        allotments: what each stage runs on, by its number.
        stints: what has been measured.
    """

    run: str
    began_utc: str
    terms: Mapping[str, Any]
    numbers: dict[str, int] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    allotments: dict[int, StageAllocation] = field(default_factory=dict)
    stints: list[Stint] = field(default_factory=list)

    def text(self) -> str:
        """The file's content."""
        return dumps(
            {
                "schema": SCHEMA,
                "run": self.run,
                "began_utc": self.began_utc,
                "terms": dict(self.terms),
                "trials": self.numbers,
                "log": self.log,
                "allotments": {str(stage): asdict(one) for stage, one in self.allotments.items()},
                "stints": [asdict(stint) for stint in self.stints],
            }
        )

    def write(self, folder: Path) -> None:
        """Replace the file in one step.

        Raises:
            UnusableLog: the folder cannot be written.
        """
        path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(".new")
            fresh.write_text(self.text(), encoding="utf-8")
            if path.exists():
                os.replace(path, folder / BEFORE)
            os.replace(fresh, path)
        except OSError as error:
            raise UnusableLog(
                f"{path} cannot be written ({error.strerror}), so that Tuner.restore would not know what was decided; "
                "make room there, or let RAY_TMPDIR name another folder"
            ) from None


def read_memory(folder: Path) -> Memory | None:
    """What an earlier sitting left; None where there was none.

    Raises:
        UnusableLog: there is something, but neither it nor what was before can be read.
    """
    problem = ""
    for name in (FILE, BEFORE):
        try:
            return parse_memory((folder / name).read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            problem = problem or f"{name}: {error}"
    if problem:
        raise UnusableLog(
            f"what RubberBandScheduler kept in the experiment's folder cannot be read ({problem}); "
            f"restore a copy of {FILE}, or start the experiment anew"
        )
    return None


def parse_memory(text: str | bytes) -> Memory:
    """What `Memory.text` gave.

    Raises:
        ValueError: it is something else; so is KeyError, TypeError and AttributeError.
    """
    found = loads(text)
    if found["schema"] != SCHEMA:
        raise InvalidInput("schema", f"must be {SCHEMA}, got {found['schema']!r}")
    return Memory(
        run=found["run"],
        began_utc=found["began_utc"],
        terms=found["terms"],
        numbers=found["trials"],
        log=found["log"],
        allotments={int(stage): StageAllocation(**one) for stage, one in found["allotments"].items()},
        stints=[_stint(one) for one in found["stints"]],
    )


def _stint(found: dict[str, Any]) -> Stint:
    first, *reports = (report and (int(report[0]), float(report[1])) for report in (found["first"], *found["reports"]))
    return Stint(**{**found, "first": first, "reports": tuple(reports)})
