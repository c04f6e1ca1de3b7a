"""What the rows come to, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from table import markdown

from dollars.choices import Choice, Setting, of_way, regrets, settings
from dollars.contest import Contest, contest
from dollars.rows import NODES, ON_FIXED, OURS, Row


def written(rows: Sequence[Row], choices: Sequence[Choice], made: str, sources: Sequence[str]) -> str:
    """The page.

    Args:
        rows: of ours, and of the best choice of each other way.
        choices: how every choice did.
        made: what repeats them.
        sources: whose recordings they rest on.
    """
    parts = [
        "# The best model for equal dollars",
        made,
        "Every way to tune has the same configurations in the same order, the same money and the same deadline, both "
        "hard: what was trained by then counts. *Ours* is the largest successive halving that `rb-tune size` finds to "
        "fit, run as `rb-tune run` does; its profiling is paid out of its money and its time. *SHA* is plain "
        "successive halving, as large as fits, on a cluster that is held from beginning to end; *ASHA* fills such a "
        "cluster until money or time is out. The others' nodes, slots per trial, and ASHA's eta are chosen **in "
        "hindsight**: those with the least median regret over the very draws that are shown, which nobody can know "
        "beforehand.",
        "Scores and times are recorded ones: " + "; ".join(sources) + ". *Regret* is how much worse the validation "
        "score of the model in hand is than the best of the pool after a whole training (loss, or accuracy).",
        "## In all",
        summed_up(rows),
        "## Regret",
        "Median and quartiles over the draws; then configurations begun, dollars spent (medians), and nodes x slots "
        "per trial. *None* is the share of draws without any model, where there are such.",
        markdown(["recorded", "budget", "deadline", "draws", OURS, *ON_FIXED], list(_regrets(rows)), "lrrr" + "r" * 4),
        "## Draw by draw",
        "Draws in which ours is better, worse, or has the same model, p of the two-sided sign test (not corrected for "
        "the number of comparisons), and the median difference of the regrets with its 95 % interval by the bootstrap; "
        "below 0 ours is better.",
        markdown(
            ["recorded", "budget", "deadline", "against", "better", "worse", "same", "p", "difference"],
            list(_contests(rows)),
            "lrrlrrrrr",
        ),
        "## Without hindsight",
        "Median regret on each fixed cluster, with the best slots per trial and eta for it (in hindsight), and the "
        "median of these medians over all choices: what somebody gets who chooses blindly.",
        markdown(
            ["recorded", "budget", "deadline", "way", *(f"{n} node" + "s" * (n > 1) for n in NODES), "blindly", OURS],
            list(_blindly(rows, choices)),
            "lrrl" + "r" * (len(NODES) + 2),
        ),
    ]
    return "\n\n".join(parts) + "\n"


def summed_up(rows: Sequence[Row]) -> str:
    """How often ours is better over all settings, and in how many it clearly is and clearly is not."""
    by_family: dict[str, list[list[Row]]] = {}
    for (pool, _, _), own in settings(rows).items():
        by_family.setdefault(pool.partition(" ")[0], []).append(own)
    lines = []
    for family, of_settings in by_family.items():
        for way in ON_FIXED:
            found = [_against(own, way) for own in of_settings]
            wins, losses, ties = (sum(getattr(one, what) for one in found) for what in ("wins", "losses", "ties"))
            clear = [one for one in found if one.p < 0.05]
            better = sum(one.wins > one.losses for one in clear)
            lines.append(
                f"- {family}, against {way} in hindsight, {len(found)} settings: better in {wins} draws, worse in "
                f"{losses}, the same model in {ties}. By the sign test at 5 % ours is better in {better} settings, "
                f"worse in {len(clear) - better}; {len(found) - len(clear)} are undecided."
            )
    return "\n".join(lines)


def _against(own: Sequence[Row], way: str) -> Contest:
    return contest(regrets(of_way(own, OURS)), regrets(of_way(own, way)))


def _regrets(rows: Sequence[Row]) -> Iterable[list[str]]:
    for setting, own in settings(rows).items():
        mine = of_way(own, OURS)
        cells = [*_named(setting), str(len(mine)), _told(mine)]
        for way in ON_FIXED:
            other = of_way(own, way)
            cells.append(f"{_told(other)}; {other[0].nodes} x {other[0].width}, eta {other[0].eta}")
        yield cells


def _contests(rows: Sequence[Row]) -> Iterable[list[str]]:
    for setting, own in settings(rows).items():
        for way in ON_FIXED:
            one = _against(own, way)
            p = f"{one.p:.3f}" if one.p >= 0.001 else "< 0.001"
            apart = "-" if math.isnan(one.difference) else f"{one.difference:+.4f} ({one.low:+.4f} to {one.high:+.4f})"
            yield [*_named(setting), way, str(one.wins), str(one.losses), str(one.ties), p, apart]


def _blindly(rows: Sequence[Row], choices: Sequence[Choice]) -> Iterable[list[str]]:
    for setting, own in settings(rows).items():
        mine = _number(_quantile(regrets(of_way(own, OURS)), 0.5))
        for way in ON_FIXED:
            tried = [c for c in choices if (c.pool, c.budget_usd, c.deadline_s) == setting and c.way == way]
            best = [min(choice.median for choice in tried if choice.nodes == nodes) for nodes in NODES]
            blind = _quantile([choice.median for choice in tried], 0.5)
            yield [*_named(setting), way, *map(_number, best), _number(blind), mine]


def _named(setting: Setting) -> list[str]:
    pool, budget_usd, deadline_s = setting
    return [pool, f"{budget_usd:g} usd", f"{deadline_s / 3600:g} h"]


def _told(rows: Sequence[Row]) -> str:
    values = regrets(rows)
    low, middle, high = (_number(_quantile(values, q)) for q in (0.25, 0.5, 0.75))
    none = sum(value == math.inf for value in values) / len(values)
    begun, usd = (float(np.median([getattr(row, name) for row in rows])) for name in ("trials", "cost_usd"))
    return f"{middle} ({low} to {high}); {begun:g}; {usd:.4g} usd" + (f"; none {100 * none:.0f} %" if none else "")


def _quantile(values: Sequence[float], q: float) -> float:
    """One of the values: between two infinite ones there is nothing to interpolate."""
    return sorted(values)[round(q * (len(values) - 1))]


def _number(value: float) -> str:
    return f"{value:.4f}" if value < math.inf else "none"
