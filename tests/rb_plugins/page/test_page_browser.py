"""How pages look, and how they are used: with a browser, on a phone, in the dark, by keyboard, without a network."""

import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest
from page_cases import EVIL, story
from selenium.webdriver.common.keys import Keys

from rb_plugins.page.frame import GUTTER
from rb_plugins.page.gantt import ROWS
from rb_plugins.page.story import Doing

ARTIFACTS = Path(__file__).parents[3] / ".ci-artifacts"

CONTRASTS = """
const seen={},parts=c=>c.match(/[\\d.]+/g).map(Number);
const behind=e=>{for(;e;e=e.parentElement){const c=parts(getComputedStyle(e).backgroundColor);
if(c.length<4||c[3]>0)return c}return [255,255,255]};
for(const e of document.querySelectorAll('body *')){
if(![...e.childNodes].some(n=>n.nodeType===3&&n.data.trim())||!e.getClientRects().length)continue;
const s=getComputedStyle(e);
seen[e.tagName+'.'+(e.className.baseVal??e.className)]=[parts(e.ownerSVGElement?s.fill:s.color),behind(e)]}
return seen
"""
"""Colours of every text that is seen, and of what is behind it, by the element's kind."""


@pytest.mark.parametrize(
    ("name", "dark"),
    [
        ("small", False), ("small", True), ("faulty", True), ("large", False), ("large", True), ("parallel", False),
        ("sequential", True), ("profile", False),
    ],
)  # fmt: skip
def test_a_phone_needs_no_sideways_scrolling_and_letters_stay_readable(opened, name, dark):
    browser = opened(name, width=360, dark=dark)
    for details in ("false", "true"):
        browser.execute_script(f"document.querySelectorAll('details').forEach(d=>d.open={details})")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    browser.execute_script("document.querySelectorAll('details').forEach(d=>d.open=false)")
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('.field text')].map(t=>t.getBoundingClientRect().height).filter(h=>h)"
    )
    assert min(sizes) >= 11
    _keep(browser, f"{name}-phone-{'dark' if dark else 'light'}")


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_has_the_contrast_that_wcag_asks_for(opened, dark):
    browser = opened("faulty", dark=dark)
    _keep(browser, f"faulty-desktop-{'dark' if dark else 'light'}")
    browser.execute_script("document.querySelectorAll('details').forEach(d=>d.open=true)")
    found = browser.execute_script(CONTRASTS)
    assert {"H1.", "FIGCAPTION.", "text.label", "text.tick", "A.v v-fault", "PRE.", "SUMMARY."} <= set(found)
    for kind, (front, back) in found.items():
        assert _contrast(front, back) >= 4.5, kind
    assert (_luminance(found["H1."][1]) < 0.02) is dark


@pytest.mark.parametrize("dark", [False, True])
def test_signs_bars_and_lines_stand_out_and_so_do_words_on_the_strip_of_stages(opened, dark):
    browser = opened("faulty", dark=dark)
    names = ("bg", "tint", "tint2", "soft", "train", "launch", "save", "good", "bad", "focus", "idle")
    colours = browser.execute_script(
        "const e=document.createElement('i');document.body.append(e);"
        "return arguments[0].map(n=>{e.style.color=`var(--${n})`;"
        "return getComputedStyle(e).color.match(/\\d+/g).map(Number)})",
        names,
    )
    told = dict(zip(names, colours, strict=True))
    for shape in ("train", "launch", "save", "good", "bad", "focus", "idle"):
        assert _contrast(told[shape], told["bg"]) >= 3, shape
    for strip in ("tint", "tint2"):
        assert _contrast(told["soft"], told[strip]) >= 4.5, strip


def test_the_keyboard_reaches_every_chart_and_reads_its_rows(opened):
    browser = opened("small")
    reached, first = [], None
    while "shares" not in reached:
        browser.switch_to.active_element.send_keys(Keys.TAB)
        here, outline = browser.execute_script(
            "const a=document.activeElement;return [a.closest('figure')?.id||a.querySelector('table')?.id||a.className"
            "||a.tagName,getComputedStyle(a).outlineStyle]"
        )
        assert outline != "none"
        first = first or here
        reached.append(here)
        if here == "trials-rows" and reached.count(here) == 1:
            browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
            told = browser.execute_script("return document.querySelector('#trials-rows .readout').textContent")
            assert told.startswith(story(10).trials[1].name)
    assert first == "skip"
    assert {"nodes-rows", "trials-rows", "curves-chart", "money-chart"} <= set(reached)


@pytest.mark.parametrize("chart", ["nodes-rows", "money-chart"])
def test_the_keyboard_goes_from_mark_to_mark_and_from_there_to_the_reason(opened, chart):
    browser = opened("faulty")
    marks = browser.find_elements("css selector", f"#{chart} .marks.fine a")
    assert len(marks) > 1
    assert [mark.get_attribute("tabindex") for mark in marks] == ["0"] + ["-1"] * (len(marks) - 1)
    browser.execute_script("arguments[0].focus()", marks[0])
    marks[0].send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == marks[1]
    told = browser.execute_script(f"return document.querySelector('#{chart} .readout').textContent")
    assert told == marks[1].get_attribute("data-words")
    marks[1].send_keys(Keys.ENTER)
    row, top = browser.execute_script(
        "const r=document.querySelector('tr:target');return [r.textContent,r.getBoundingClientRect().top]"
    )
    note = story(16, faulty=True).notes[int(marks[1].get_attribute("href").rpartition("-")[2])]
    assert note.kind in row
    assert note.subject in row
    assert 0 <= top < 800


def test_a_mark_leads_to_a_reason_that_is_folded_away(opened):
    browser = opened("large")
    assert browser.execute_script("return document.querySelector('#faults details').open") is False
    mark = browser.find_elements("css selector", "#nodes-rows .marks.fine a")[-1]
    browser.execute_script("arguments[0].focus()", mark)
    mark.send_keys(Keys.ENTER)
    assert browser.find_element("css selector", "tr:target").is_displayed()
    assert 0 <= browser.execute_script("return document.querySelector('tr:target').getBoundingClientRect().top") < 800


def test_every_chart_has_words_and_a_table(opened):
    browser = opened("faulty")
    named = browser.execute_script(
        "return [...document.querySelectorAll('svg[role=img]')].map(s=>"
        "s.getAttribute('aria-labelledby').split(' ').map(i=>document.getElementById(i).textContent.length))"
    )
    assert len(named) == 5
    assert all(min(lengths) > 0 for lengths in named)
    for section in ("time", "curves", "money", "stages", "bill", "faults", "all", "scaling", "repeat"):
        rows = "return document.querySelectorAll(`#${arguments[0]} table tr`).length"
        assert browser.execute_script(rows, section) > 1


def test_bars_and_marks_differ_by_more_than_their_colour(opened):
    browser = opened("small")
    fills = browser.execute_script(
        "return arguments[0].map(d=>getComputedStyle(document.querySelector(`.legend .d-${d}`)).fill)", list(Doing)
    )
    assert len({fill for fill in fills if fill.startswith("url")}) == len(Doing) - 1
    browser = opened("large")
    signs = browser.execute_script(
        "return [...document.querySelectorAll('#time .legend .v')].map(v=>[v.textContent,v.nextSibling.textContent])"
    )
    assert len(signs) > 1
    assert len({sign for sign, _ in signs}) == len({words for _, words in signs}) == len(signs)


@pytest.mark.parametrize("width", [360, 1100])
def test_many_marks_are_gathered_and_none_hides_another(opened, width):
    browser = opened("large", width=width)
    marks = browser.execute_script(
        "return [...document.querySelectorAll('#money-chart .marks a')].filter(a=>a.getClientRects().length).map(a=>{"
        "const r=a.getBoundingClientRect(),s=a.querySelector('sub');return [r.left,r.right,s?Number(s.textContent):1]})"
    )
    assert sum(count for _, _, count in marks) == len(story(1000, faulty=True).notes) > len(marks)
    assert all(before[1] <= after[0] for before, after in pairwise(marks))
    assert marks[0][0] >= 0
    assert marks[-1][1] <= width


def test_what_others_wrote_is_shown_and_not_run(opened):
    browser = opened("faulty")
    assert browser.title != "broken"
    assert browser.find_element("tag name", "h1").text.startswith(EVIL.split("\u202e")[0])
    assert browser.execute_script("return document.scripts.length") == 1


@pytest.mark.parametrize("name", ["small", "large", "profile"])
def test_without_a_network_nothing_is_asked_of_it_and_nothing_is_complained_of(opened, browser, name):
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd(
        "Network.emulateNetworkConditions",
        {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
    )
    browser.get_log("performance")
    opened(name)
    messages = [entry["message"] for entry in browser.get_log("performance")]
    requests = [message for message in messages if 'requestWillBeSent"' in message]
    assert requests
    assert all('"url":"file://' in message or '"url":"data:' in message for message in requests)
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    assert browser.execute_script("return document.querySelectorAll('figure').length") > 0


def test_a_thousand_trials_are_small_and_soon_there(opened, pages):
    size = (pages / "large.html").stat().st_size
    browser = opened("large")
    drawn_s = browser.execute_async_script(
        "const done=arguments[0];requestAnimationFrame(()=>setTimeout(()=>done(performance.now()/1000)))"
    )
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / "large.json").write_text(json.dumps({"bytes": size, "drawn_s": drawn_s}))
    assert size < 5_000_000
    assert drawn_s < 2.0
    rows, curves, words = browser.execute_script(
        "return [document.querySelectorAll('#trials-rows .row').length,"
        "document.querySelectorAll('#curves-chart .curve').length,"
        "document.querySelector('#trials-rows figcaption').textContent]"
    )
    assert rows == curves == ROWS
    assert words.startswith(f"{ROWS} of 1000 trials")
    rows = "return document.querySelectorAll('#all details:first-of-type tbody tr').length"
    assert browser.execute_script(rows) == 1000
    _keep(browser, "large-desktop-light")


def test_without_scripts_everything_is_there(opened):
    browser = opened("small")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(browser.current_url)
        assert len(browser.find_elements("css selector", "#trials-rows .row")) == 10
        assert browser.find_element("id", "trials-rows").size["width"] > 10 * GUTTER
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def _luminance(colour):
    parts = [part / 255 for part in colour[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(front, back):
    dark, light = sorted(map(_luminance, (front, back)))
    return (light + 0.05) / (dark + 0.05)


def _keep(browser, name):
    """A picture of the whole page, for people."""
    ARTIFACTS.mkdir(exist_ok=True)
    width, height = browser.execute_script("return [innerWidth,document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, 6000), "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    (ARTIFACTS / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))
