"""How each study's results came about, and the index of all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from machine import Machine
from table import markdown

RECORD = "run.json"
"""File of it in the folder of a study's results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one study.

    Attributes:
        study: its name.
        title: what it is about.
        command: what repeats it.
        seeds: what its chance follows from.
        date: ISO date of its end, UTC.
        seconds: how long it took.
        machine: on what.
    """

    study: str
    title: str
    command: str
    seeds: str
    date: str
    seconds: float
    machine: Machine


def write_record(path: Path, record: Record) -> None:
    """Write it as JSON."""
    path.write_text(json.dumps(dataclasses.asdict(record), indent=2) + "\n", encoding="utf-8")


def read_record(path: Path) -> Record:
    """What `write_record` wrote."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return Record(**{**table, "machine": Machine(**table["machine"])})


def write_index(out: Path, order: Sequence[str]) -> None:
    """Write README.md: every study that has results in this folder, with how they came about.

    Args:
        out: the folder of all results, one folder a study.
        order: names of the studies.
    """
    records = [read_record(out / study / RECORD) for study in order if (out / study / RECORD).exists()]
    machines = list(dict.fromkeys(str(record.machine) for record in records))
    rows = [
        [
            record.title,
            f"`{record.command}`",
            record.seeds,
            record.date,
            f"{record.seconds:.0f}",
            str(1 + machines.index(str(record.machine))),
            " ".join(_links(out, record.study)),
        ]
        for record in records
    ]
    parts = [
        "# Results",
        "Every figure here comes of the command in its line; the same line stands in every page. Where all follows "
        "from seeds, or from nothing left to chance, the figures are the same on every machine. What was measured on a "
        "machine differs with it.",
        markdown(["study", "command", "chance", "date", "seconds", "machine", "files"], rows, "llllrll"),
        "Machines:",
        "\n".join(f"{number}. {name}" for number, name in enumerate(machines, start=1)),
    ]
    out.joinpath("README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _links(out: Path, study: str) -> Sequence[str]:
    """A link to each file of a study, pages first."""
    kinds = (".md", ".svg", ".csv")
    files = [path for path in out.joinpath(study).iterdir() if path.suffix in kinds]
    files.sort(key=lambda path: (kinds.index(path.suffix), path.name))
    return [f"[{path.name}]({study}/{path.name})" for path in files]
