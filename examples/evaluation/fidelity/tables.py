"""What the files come to, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np
from scipy.stats import t
from table import markdown

from .bands import AIM, CONFIDENCE, Coverage
from .cases import LAST_OWN, case_of
from .measured import Run
from .rehearsals import Covered

Chosen = Callable[[Run], bool]


def of_runs(rows: Sequence[Run], origin: str) -> str:
    """Coverage, errors, and where they come from."""
    parts = [
        "# Real runs against their forecasts",
        f"{len(rows)} runs with real processes on this machine's cores, each forecast by 1,000 samples before it began "
        f"and then run by that plan. The aim is that {AIM:.0%} of them end between P10 and P90; behind each share is "
        f"its binomial interval (Clopper and Pearson) at {CONFIDENCE:.0%}. Runs that share a profile share its error, "
        "so their number says less than that of independent ones would, and the interval is somewhat too narrow.",
        markdown(["runs", "time inside", "cost inside"], _coverage(rows), "lrr"),
        "*Profile taken for sure* is the same forecast without `run_cv`: what is left when the means of a few "
        "configurations, measured once, are taken for the truth.",
        "## Errors",
        "Actual over forecast P50, less one. *Bias* is the mean with its 95 % interval, *spread* the standard "
        "deviation; *forecast* is the spread that the forecasts themselves had, half of P90 - P10 over 1.28.",
        markdown(
            ["", "bias", "spread", "forecast", "smallest", "median", "largest"],
            [
                _errors("time", [(r.jct_s, r.jct_p10_s, r.jct_p50_s, r.jct_p90_s) for r in rows]),
                _errors("cost", [(r.cost_usd, r.cost_p10_usd, r.cost_p50_usd, r.cost_p90_usd) for r in rows]),
            ],
            "lrrrrrr",
        ),
        "## Where they come from",
        "*Iterations* is the seconds of a run's iterations by those of its profile, on the mean over runs, and "
        "*spread* its standard deviation, which `run_cv` and the run's own configurations should account for. Then "
        "what a trial's start and save took, what the profile says of them, and a barrier, of which 0.02 s are "
        "assumed. *Others* is how many cores were busy with something else: a forecast is for a machine as it was "
        "when it was profiled.",
        markdown(
            [
                "workload",
                "runs",
                "iterations",
                "spread",
                "`run_cv`",
                "start and save",
                "of the profile",
                "barrier",
                "others",
            ],
            _causes(rows),
            "lrrrrrrrr",
        ),
        "## All runs",
        markdown(
            ["run", "plan", "forecast of time (s)", "actual", "", "forecast of cost (usd)", "actual", ""],
            [
                [
                    row.name,
                    row.plan,
                    f"{row.jct_p10_s:.2f} {row.jct_p50_s:.2f} {row.jct_p90_s:.2f}",
                    f"{row.jct_s:.2f}",
                    _where(row.jct_s, row.jct_p10_s, row.jct_p90_s),
                    f"{row.cost_p10_usd:.5f} {row.cost_p50_usd:.5f} {row.cost_p90_usd:.5f}",
                    f"{row.cost_usd:.5f}",
                    _where(row.cost_usd, row.cost_p10_usd, row.cost_p90_usd),
                ]
                for row in rows
            ],
            "llrrlrrl",
        ),
        origin,
    ]
    return "\n\n".join(parts) + "\n"


def of_rehearsals(rows: Sequence[Covered], origin: str) -> str:
    """Coverage where nothing but chance is at work, and where the profile is off."""
    parts = [
        "# Rehearsals against their forecasts",
        "The real engine on the simulated cloud, against 1,000 samples of the simulator with other seeds. Where the "
        "profile is true this checks the simulator against the engine: 80 % must be inside. Where it is off, each "
        "rehearsal has a true factor of its own, drawn with the given coefficient of variation, by which its "
        "iterations take longer than in the profile. A forecast that takes the profile for sure is too narrow then; "
        "one that is told how far it may be off (`run_cv`) is not.",
        markdown(
            ["profile off by", "forecast told", "time inside", "cost inside"],
            [
                [
                    f"{key[0]:.0%}" if key[0] else "nothing",
                    f"{key[1]:.0%}" if key[1] else "nothing",
                    *map(str, _together(list(group))),
                ]
                for key, group in groupby(
                    sorted(rows, key=lambda row: (row.true_cv, row.run_cv)), key=lambda row: (row.true_cv, row.run_cv)
                )
            ],
            "rrrr",
        ),
        "## By problem",
        markdown(
            ["problem", "off by", "told", "forecast of time (s)", "inside", "forecast of cost (usd)", "inside"],
            [
                [
                    row.problem,
                    f"{row.true_cv:.0%}",
                    f"{row.run_cv:.0%}",
                    f"{row.jct_p10_s:.0f} {row.jct_p50_s:.0f} {row.jct_p90_s:.0f}",
                    str(Coverage.counted(row.jct_inside, row.runs)),
                    f"{row.cost_p10_usd:.2f} {row.cost_p50_usd:.2f} {row.cost_p90_usd:.2f}",
                    str(Coverage.counted(row.cost_inside, row.runs)),
                ]
                for row in rows
            ],
            "lrrrrrr",
        ),
        origin,
    ]
    return "\n\n".join(parts) + "\n"


def _coverage(rows: Sequence[Run]) -> Iterable[list[str]]:
    kinds: list[tuple[str, Chosen]] = [
        ("all", lambda row: True),
        *((f"of {name}", _of(name)) for name in dict.fromkeys(case_of(row.name).workload for row in rows)),
        ("trials on two slots", lambda row: "/2" in row.plan),
        ("one profile for several runs", lambda row: case_of(row.name).repetition != LAST_OWN),
        ("a profile of their own", lambda row: case_of(row.name).repetition == LAST_OWN),
    ]
    for title, chosen in kinds:
        some = [row for row in rows if chosen(row)]
        if some:
            yield [title, *_counted([r.jct_inside for r in some], [r.cost_inside for r in some])]
    yield [
        "all, profile taken for sure",
        *_counted([r.jct_inside_sure for r in rows], [r.cost_inside_sure for r in rows]),
    ]


def _of(workload: str) -> Chosen:
    return lambda row: case_of(row.name).workload == workload


def _counted(*inside: Sequence[bool]) -> list[str]:
    return [str(Coverage.counted(sum(held), len(held))) for held in inside]


def _together(rows: Sequence[Covered]) -> tuple[Coverage, Coverage]:
    """Of time and of cost, over all rehearsals of these rows."""
    runs = sum(row.runs for row in rows)
    return (
        Coverage.counted(sum(row.jct_inside for row in rows), runs),
        Coverage.counted(sum(row.cost_inside for row in rows), runs),
    )


def _errors(title: str, runs: Sequence[tuple[float, float, float, float]]) -> list[str]:
    """Of (actual, P10, P50, P90) of each run."""
    actual, p10, p50, p90 = np.array(runs).T
    errors = actual / p50 - 1.0
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(errors) - 1)) * _spread(errors) / math.sqrt(len(errors))
    forecast = float(np.mean((p90 - p10) / p50)) / 2 / 1.2816
    return [
        title,
        f"{errors.mean():+.1%} ({errors.mean() - half:+.1%} to {errors.mean() + half:+.1%})",
        f"{_spread(errors):.1%}",
        f"{forecast:.1%}",
        *(f"{quantile:+.1%}" for quantile in (errors.min(), float(np.median(errors)), errors.max())),
    ]


def _causes(rows: Sequence[Run]) -> Iterable[list[str]]:
    by_workload: dict[str, list[Run]] = {"all": list(rows)}
    for row in rows:
        by_workload.setdefault(case_of(row.name).workload, []).append(row)
    for name, own in by_workload.items():
        ratios = np.array([row.iteration_ratio for row in own])
        barriers = [row.barrier_s for row in own if row.barrier_s is not None]
        yield [
            name,
            str(len(own)),
            f"{ratios.mean():.3f}",
            f"{_spread(ratios):.1%}",
            f"{np.mean([row.run_cv for row in own]):.1%}",
            f"{np.mean([row.around_s for row in own]):.3f} s",
            f"{np.mean([row.profile_around_s for row in own]):.3f} s",
            f"{np.mean(barriers):.3f} s" if barriers else "-",
            f"{np.mean([row.others_cores for row in own]):.2f}",
        ]


def _spread(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _where(value: float, low: float, high: float) -> str:
    return "below" if value < low else "above" if value > high else ""
