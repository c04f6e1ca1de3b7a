"""The table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rows import Row

COLUMNS = (
    "problem", "deadline", "oracle in time", "of these: re-planned", "its cost", "its changes",
    "plan kept", "its cost", "re-planned, right figures", "its cost",
)  # fmt: skip


def write_table(table: Sequence[Row], path: Path) -> None:
    """All rows, with what they mean."""
    lines = [
        "# Re-planning against an oracle",
        "",
        "Iterations take twice as long as is known when the run is planned, nodes take three times as long to join, "
        "and three requests for a node in ten fail. The oracle knows the true times, and keeps its plan. The other "
        "shares, and the costs, are over the seeds in which it is in time; costs are relative to its own, median and "
        "90th percentile (of the kept plan the median).",
        "",
        f"Seeds: 0 to {table[0].seeds - 1} of each row.",
        "",
        _line(COLUMNS),
        _line(["---"] * len(COLUMNS)),
    ]
    for row in table:
        lines.append(
            _line(
                [
                    row.problem,
                    f"{row.deadline_factor:g}x = {row.deadline_s / 60:.0f} min",
                    _share(row.oracle_met),
                    _share(row.replanned_met),
                    f"{row.replanned_ratio:.2f}, {row.replanned_ratio_p90:.2f}",
                    f"{row.changes:.1f}",
                    _share(row.fixed_met),
                    f"{row.fixed_ratio:.2f}",
                    _share(row.informed_met),
                    f"{row.informed_ratio:.2f}, {row.informed_ratio_p90:.2f}",
                ]
            )
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
