"""What pages show, read from a browser, against figures that are reckoned anew from the log alone."""

import re
from collections import defaultdict

import numpy as np
import pytest
from page_cases import PROFILE, estimate, log, plan, problem, story

from rb_core.events import (
    NodeLost,
    NodeReleased,
    NodeRequested,
    NodeRunning,
    StageEnded,
    StageStarted,
    TrialPaused,
    TrialReady,
    TrialSaved,
    TrialStarted,
)
from rb_core.report import duration, money

USD_PER_S = 12.0 / 3600
SLOTS = 4
CASES = [("small", 10, False), ("faulty", 16, True), ("parallel", "parallel", True), ("sequential", "sequential", True)]
"""Names of pages, and the cases that they are of."""

_UNITS_S = {"s": 1, "min": 60, "h": 3600, "d": 86400}


def _lives(history):
    """Of each node that ran: since when, until when, and in which lane."""
    lanes = {e.node: e.chain for e in history if isinstance(e, NodeRequested)}
    since = {e.node: e.since_s for e in history if isinstance(e, NodeRunning)}
    until = {e.node: e.t_s for e in history if isinstance(e, NodeReleased)}
    until |= {e.node: e.until_s for e in history if isinstance(e, NodeLost)}
    return [(since[node], until[node], lanes[node]) for node in since]


def _billed_s(lives):
    return sum(max(60.0, np.ceil(until - since - 1e-6)) for since, until, _ in lives)


def _stages(history):
    """(chain, stage) with its barriers, in the order of their beginnings."""
    ends = {(e.chain, e.stage): e.t_s for e in history if isinstance(e, StageEnded)}
    return {
        (e.chain, e.stage): (e.t_s, ends[e.chain, e.stage], len(e.trials))
        for e in history
        if isinstance(e, StageStarted)
    }


def _cells(browser, selector):
    """The text of a table's body, cell by cell, its lines apart."""
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0]+' tbody tr')].map(r=>[...r.children].map(c=>"
        "[...c.childNodes].map(n=>n.textContent)))",
        selector,
    )


@pytest.mark.parametrize(("name", "case", "faulty"), CASES)
def test_the_table_of_stages_says_what_the_log_and_the_samples_say(opened, name, case, faulty):
    history, told = log(case, faulty=faulty), estimate(case)
    barriers, lives = _stages(history), _lives(history)
    *rows, whole = _cells(opened(name), "#stages")
    began_s = min(e.t_s for e in history if isinstance(e, NodeRequested))
    assert len(rows) == len(barriers) == len(told.stages)
    several = len(plan(case).chains) > 1
    for row, part in zip(rows, told.stages, strict=True):
        start_s, end_s, trials = barriers[part.chain, part.stage]
        assert row[0] == [f"{part.chain}.{part.stage}" if several else str(part.stage)]
        assert row[2][0] == duration(end_s - start_s)
        own = [life for life in lives if case != "parallel" or life[2] == part.chain]
        paid_s = sum(max(0.0, min(until, end_s) - max(since, start_s)) for since, until, _ in own)
        over = [life for life in own if start_s < life[1] <= end_s]
        paid_s += _billed_s(over) - sum(until - since for since, until, _ in over)
        assert row[4][0] == money(paid_s * USD_PER_S)
        assert row[5] == [f"{trials} x {problem(case).experiment.chains[part.chain][part.stage].iterations}"]
        for column, values, words, value in (
            (1, part.end_s - part.start_s, duration, end_s - start_s),
            (3, part.cost_usd, money, paid_s * USD_PER_S),
        ):
            low, high = np.quantile(values, [0.05, 0.95])
            assert row[column][0] == words(np.mean(values))
            assert row[column][1:] in ([], [f"{words(low)} .. {words(high)}"])
            slack = 1e-9 * high
            beside = "below" if value < low - slack else "above" if value > high + slack else ""
            assert row[column + 1][1:] == ([f"{beside} the forecast"] if beside else [])
    assert whole[2][0] == duration(max(end_s for _, end_s, _ in barriers.values()) - began_s)
    assert whole[4][0] == money(_billed_s(lives) * USD_PER_S)


@pytest.mark.parametrize(("name", "case", "faulty"), CASES)
def test_every_dollar_is_accounted_for(opened, name, case, faulty):
    history = log(case, faulty=faulty)
    whole_usd = _billed_s(_lives(history)) * USD_PER_S
    rows = {row[0][0]: row[1][0] for row in _cells(opened(name), "#bill #shares")}
    assert rows.pop("all") == money(whole_usd)
    assert sum(float(cost.split()[0]) for cost in rows.values()) == pytest.approx(whole_usd, rel=2e-3)
    if not faulty:
        trained_s = _slot_seconds(history)
        assert rows["training"] == money(trained_s["training"] / SLOTS * USD_PER_S)
        assert rows["saving"] == money(trained_s["saving"] / SLOTS * USD_PER_S)
        assert rows["starting trials"] == money(trained_s["starting"] / SLOTS * USD_PER_S)


def _slot_seconds(history):
    """Of a run without faults: what its slots did, by the events of its trials."""
    told, started, ready, saved = defaultdict(float), {}, {}, defaultdict(float)
    for event in history:
        match event:
            case TrialStarted():
                started[event.trial], saved[event.trial] = (event.t_s, event.slots), 0.0
            case TrialReady():
                ready[event.trial] = event.t_s
            case TrialSaved():
                saved[event.trial] += event.save_s
            case TrialPaused():
                since_s, slots = started[event.trial]
                told["starting"] += slots * (ready[event.trial] - since_s)
                told["saving"] += slots * saved[event.trial]
                told["training"] += slots * (event.t_s - ready[event.trial] - saved[event.trial])
    return told


@pytest.mark.parametrize(("name", "case", "faulty"), CASES)
def test_the_band_and_the_line_of_money_lie_where_the_samples_and_the_log_put_them(opened, name, case, faulty):
    told, history = estimate(case), log(case, faulty=faulty)
    usd_at, s_at = _scales(opened(name))
    band, middle, line = (_path(opened(name), kind) for kind in ("band", "median", "spent"))
    upper, lower = band[: len(band) // 2], band[len(band) // 2 :][::-1]
    end_s = s_at(upper[-1][0])
    for share in (0.2, 0.5, 0.9, 1.0):
        t_s = share * end_s
        usd = np.sum(
            [p.cost_usd * np.clip((t_s - p.start_s) / (p.end_s - p.start_s), 0, 1) for p in told.stages], axis=0
        )
        for points, level in ((lower, 0.05), (middle, 0.5), (upper, 0.95)):
            drawn = np.interp(t_s, [s_at(x) for x, _ in points], [usd_at(y) for _, y in points])
            assert drawn == pytest.approx(np.quantile(usd, level), rel=0.01, abs=0.01 * usd.max())
    lives = _lives(history)
    assert usd_at(line[-1][1]) == pytest.approx(_billed_s(lives) * USD_PER_S, rel=0.01)
    half_s = s_at(line[-1][0]) / 2
    held = [(since, min(until, half_s), lane) for since, until, lane in lives if since < half_s]
    drawn = np.interp(half_s, [s_at(x) for x, _ in line], [usd_at(y) for _, y in line])
    assert drawn == pytest.approx(_billed_s(held) * USD_PER_S, rel=0.03)


def _scales(browser):
    """From a place in the chart of money, in shares of the field, to usd and to seconds: as its axes are labelled."""
    labels = browser.execute_script(
        "return [...document.querySelectorAll('#money-chart .gutter text')].map(t=>"
        "[t.textContent,+t.getAttribute('y')])"
    )
    ticks = browser.execute_script(
        "return [...document.querySelectorAll('#money-chart .field > .tick')].map(t=>"
        "[t.textContent,parseFloat(t.getAttribute('x'))])"
    )
    (first, y0), (second, y1) = labels[:2]
    usd_per_pixel = (float(second) - float(first)) / (y1 - y0)
    t_s, x = next((_seconds(words), x) for words, x in ticks if _seconds(words))
    height = 260
    return (lambda y: (height * y - (y0 - 4)) * usd_per_pixel), (lambda x_: t_s * 100 * x_ / x)


def _seconds(words):
    """A tick of an axis of time in seconds; None for what is none."""
    if found := re.fullmatch(r"(\d+)h(\d\d)", words):
        return int(found[1]) * 3600 + int(found[2]) * 60
    found = re.fullmatch(r"([\d.]+) (s|min|h|d)", words)
    return float(found[1]) * _UNITS_S[found[2]] if found else None


def _path(browser, kind):
    d = browser.execute_script(f"return document.querySelector('#money-chart .field .{kind}').getAttribute('d')")
    return [tuple(float(part) / 1000 for part in point.split()) for point in d.strip("MZ").split("L")]


@pytest.mark.parametrize(("name", "case", "faulty"), CASES)
def test_bars_and_marks_stand_where_their_times_are(opened, name, case, faulty):
    told = story(case, faulty=faulty)
    browser = opened(name)
    drawn = browser.execute_script(
        "const f=document.querySelector('#trials-rows .field').getBoundingClientRect();"
        "return [...document.querySelectorAll('#trials-rows .row')].map(r=>[...r.querySelectorAll('[class^=d-]')]"
        ".map(b=>{const q=b.getBBox();return [b.className.baseVal,q.x/f.width,(q.x+q.width)/f.width]}))"
    )
    shown = sorted(told.trials[: len(drawn)], key=lambda row: row.lane)
    for bars, row in zip(drawn, shown, strict=True):
        assert [kind for kind, _, _ in bars] == [f"d-{span.doing}" for span in row.spans]
        for (_, left, right), span in zip(bars, row.spans, strict=True):
            assert left == pytest.approx(span.start_s / told.end_s, abs=1e-3)
            assert right == pytest.approx(span.end_s / told.end_s, abs=1e-3)
    marks = browser.execute_script(
        "return [...document.querySelectorAll('#nodes-rows .marks.fine a')].map(a=>{"
        "const r=a.getBoundingClientRect(),f=a.parentNode.getBoundingClientRect();"
        "return [((r.left+r.right)/2-f.left)/f.width,+a.hash.split('-')[1]]})"
    )
    assert len(marks) > 0 or not told.notes
    for at, number in marks:
        assert at == pytest.approx(told.notes[number].t_s / told.end_s, abs=2e-3)


def test_chains_that_run_side_by_side_have_a_strip_and_barriers_of_their_own(opened):
    barriers, told = _stages(log("parallel", faulty=True)), story("parallel", faulty=True)
    browser = opened("parallel")
    strips, lines = browser.execute_script(
        "const f=document.querySelector('#trials-rows .field'),w=f.getBoundingClientRect().width,s={};"
        "for(const b of f.querySelectorAll('.stage')){const q=b.getBBox();(s[q.y]??=[]).push((q.x+q.width)/w)}"
        "return [Object.entries(s).sort((a,b)=>a[0]-b[0]).map(e=>e[1]),[...f.querySelectorAll('.row')].map(r=>"
        "[...r.querySelectorAll('.barrier')].map(l=>parseFloat(l.getAttribute('x1'))/100))]"
    )
    for chain, ends in enumerate(strips):
        expected = [end_s / told.end_s for (c, _), (_, end_s, _) in barriers.items() if c == chain]
        assert ends == pytest.approx(expected, abs=1e-3)
    shown = sorted(told.trials[: len(lines)], key=lambda row: row.lane)
    assert {row.lane for row in shown} == set(range(len(strips)))
    for own, row in zip(lines, shown, strict=True):
        assert own == pytest.approx(strips[row.lane], abs=1e-3)


def test_chains_that_follow_each_other_are_named_above_their_stages(opened):
    barriers, told = _stages(log("sequential", faulty=True)), story("sequential", faulty=True)
    browser = opened("sequential")
    labels, boxes = browser.execute_script(
        "const c=document.querySelector('#nodes-rows'),w=c.querySelector('.field').getBoundingClientRect().width;"
        "return [[...c.querySelectorAll('.gutter text')].slice(0,2).map(t=>t.textContent),"
        "[...c.querySelectorAll('.stage')].filter(b=>b.getBBox().y===0).map(b=>(b.getBBox().x+b.getBBox().width)/w)]"
    )
    assert labels == ["chain", "stage"]
    ends = {chain: end_s for (chain, _), (_, end_s, _) in barriers.items()}
    assert boxes == pytest.approx([end_s / told.end_s for end_s in ends.values()], abs=1e-3)


def test_a_profiles_chart_holds_what_was_measured_and_shades_what_is_only_vouched_for(opened):
    browser = opened("profile")
    starts, means, predicted, band = browser.execute_script(
        "const c=document.querySelector('#scaling-chart'),x=e=>parseFloat(e.getAttribute('cx')??e.getAttribute('x'));"
        "const all=s=>[...c.querySelectorAll('.field '+s)];"
        "return [all('.p-start').map(x),all('.p-mean').map(e=>[x(e),+e.getAttribute('cy')]),all('.mark').map(x),"
        "all('.band').map(e=>[x(e),parseFloat(e.getAttribute('width'))])]"
    )
    assert sorted(starts) == pytest.approx([x for x, _ in means])
    low, high = np.log(1 / 1.25), np.log(8 * 1.25)
    places = [100 * (np.log(w) - low) / (high - low) for w in (1, 2, 4, 8)]
    assert [x for x, _ in means] == pytest.approx(places[:3], abs=0.01)
    assert predicted == pytest.approx(places[3:], abs=0.01)
    assert band == [pytest.approx([places[2], places[3] - places[2]], abs=0.01)]
    heights, times_s = [y for _, y in means], [PROFILE["iteration_s"][w]["mean"] for w in "124"]
    slope = (heights[1] - heights[0]) / np.log(times_s[1] / times_s[0])
    assert heights[2] - heights[0] == pytest.approx(slope * np.log(times_s[2] / times_s[0]), rel=0.01)
    rows = _cells(browser, "#scaling")[:4]
    assert [row[6] for row in rows] == [["measured"]] * 3 + [["by the curve"]]
    assert [row[5] for row in rows] == [["+0.00%"], ["+0.10%"], ["-1.70%"], []]
