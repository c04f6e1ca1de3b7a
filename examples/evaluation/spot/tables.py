"""The table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from table import markdown

from .rows import Row

COLUMNS = (
    "experiment", "policy", "interruptions an hour", "without notice", "runs", "cost", "times cheaper", "late",
    "mean end / deadline", "p99", "nodes hit", "bought on demand", "in so many runs", "changes of plan",
)  # fmt: skip


def page(table: Sequence[Row], origin: str) -> str:
    """Everything of the rows that is worth reading."""
    parts = [
        "# Spot against the best static cluster on demand",
        "Costs in usd with their standard errors; how many times cheaper that is than the best static cluster on "
        "demand (first row of each experiment: its cost); the share of runs that end after the deadline, with its "
        "standard error.",
        origin,
        markdown(COLUMNS, _cells(table)),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(table: Sequence[Row]) -> list[Sequence[str]]:
    cells: list[Sequence[str]] = []
    seen = set()
    for row in table:
        if row.experiment not in seen:
            seen.add(row.experiment)
            static = [row.experiment, "static, on demand", "0", "", "", f"{row.static_usd:.2f}", "1.00"]
            cells.append(static + [""] * (len(COLUMNS) - len(static)))
        # Where nothing varies one run tells all.
        several = row.seeds > 1
        cost = f" +- {row.cost_error_usd:.2f}" if several else ""
        missed = f" +- {row.missed_error:.1%}" if several else ""
        cells.append(
            (
                row.experiment, row.policy.replace("_", " "), f"{row.rate:g}", f"{row.unannounced:.0%}",
                str(row.seeds), f"{row.cost_usd:.2f}{cost}", f"{row.cheaper:.2f}",
                f"{row.missed:.1%}{missed}", f"{row.jct_s / row.deadline_s:.3f}",
                f"{row.jct_p99_s / row.deadline_s:.3f}", f"{row.interrupted:.1f} of {row.nodes:.1f}",
                f"{row.on_demand:.2f}", f"{row.changed_over:.0%}", f"{row.changes:.1f}",
            )
        )  # fmt: skip
    return cells
