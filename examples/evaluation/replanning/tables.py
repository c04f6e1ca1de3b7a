"""The table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from table import markdown

from .rows import Row

COLUMNS = (
    "problem", "deadline", "oracle in time", "of these: re-planned", "its cost", "its changes",
    "plan kept", "its cost", "re-planned, right figures", "its cost",
)  # fmt: skip


def page(table: Sequence[Row], origin: str) -> str:
    """All rows, with what they mean."""
    parts = [
        "# Re-planning against an oracle",
        "Iterations take twice as long as is known when the run is planned, nodes take three times as long to join, "
        "and three requests for a node in ten fail. The oracle knows the true times, and keeps its plan. The other "
        "shares, and the costs, are over the seeds in which it is in time; costs are relative to its own, median and "
        "90th percentile (of the kept plan the median).",
        origin,
        markdown(COLUMNS, [_cells(row) for row in table]),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(row: Row) -> Sequence[str]:
    return [
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


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"
