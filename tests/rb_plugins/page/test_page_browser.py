"""Pages as a browser shows them: chromium without a window, driven by the system's chromedriver."""

import base64
import shutil
from pathlib import Path

import pytest
from page_cases import EVIL, story
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

from rb_plugins.page.document import write
from rb_plugins.page.frame import GUTTER
from rb_plugins.page.gantt import ROWS
from rb_plugins.page.story import Doing

ARTIFACTS = Path(__file__).parents[3] / ".ci-artifacts"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {"small": story(10), "faulty": story(16, faulty=True, evil=True), "large": story(1000)}
    for name, told in made.items():
        write(told, folder / f"{name}.html")
    return folder


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ):
        options.add_argument(word)  # fmt: skip
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, pages):
    """Open a page: its name, the window's width, and whether it is dark."""

    def opened(name: str, *, width: int = 1100, dark: bool = False):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get((pages / f"{name}.html").as_uri())
        return browser

    return opened


def test_bars_stand_where_their_times_are(opened):
    browser = opened("small")
    told = story(10)
    drawn = browser.execute_script(
        "const f=document.querySelector('#trials-rows .field').getBoundingClientRect();"
        "return [...document.querySelectorAll('#trials-rows .row')].map(r=>[...r.querySelectorAll('[class^=d-]')]"
        ".map(b=>{const q=b.getBBox();return [b.className.baseVal,q.x/f.width,(q.x+q.width)/f.width]}))"
    )
    assert len(drawn) == len(told.trials) == 10
    for bars, row in zip(drawn, told.trials, strict=True):
        assert [name for name, _, _ in bars] == [f"d-{span.doing}" for span in row.spans]
        for (_, left, right), span in zip(bars, row.spans, strict=True):
            assert left == pytest.approx(span.start_s / told.end_s, abs=1e-3)
            assert right == pytest.approx(span.end_s / told.end_s, abs=1e-3)


@pytest.mark.parametrize("name", ["small", "faulty", "large"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_needs_no_sideways_scrolling_and_letters_stay_readable(opened, name, dark):
    browser = opened(name, width=360, dark=dark)
    for details in ("false", "true"):
        browser.execute_script(f"document.querySelectorAll('details').forEach(d=>d.open={details})")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('.field text')].map(t=>t.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 11
    _keep(browser, f"{name}-phone-{'dark' if dark else 'light'}")


def test_dark_and_light_differ_and_both_have_contrast(opened):
    found = [_colours(opened("small", dark=dark)) for dark in (False, True)]
    assert _luminance(found[0]["body"][1]) > 0.9
    assert _luminance(found[1]["body"][1]) < 0.02
    for colours in found:
        for name, (front, back) in colours.items():
            assert _contrast(front, back) >= 4.5, name
    for dark in (False, True):
        _keep(opened("faulty", dark=dark), f"faulty-desktop-{'dark' if dark else 'light'}")


def test_the_keyboard_reaches_every_chart_and_reads_its_rows(opened):
    browser = opened("small")
    reached, first = [], None
    for _ in range(60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        here = browser.execute_script(
            "const a=document.activeElement;return a.closest('figure')?.id||a.className||a.tagName"
        )
        first = first or here
        reached.append(here)
        if here == "trials-rows" and reached.count(here) == 1:
            browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
            told = browser.execute_script("return document.querySelector('#trials-rows .readout').textContent")
            assert told.startswith(story(10).trials[1].name)
    assert first == "skip"
    assert {"nodes-rows", "trials-rows", "curves-chart", "money-chart"} <= set(reached)


def test_every_chart_has_words_and_a_table(opened):
    browser = opened("faulty")
    named = browser.execute_script(
        "return [...document.querySelectorAll('svg[role=img]')].map(s=>"
        "s.getAttribute('aria-labelledby').split(' ').map(i=>document.getElementById(i).textContent.length))"
    )
    assert len(named) == 4
    assert all(min(lengths) > 0 for lengths in named)
    for section in ("time", "curves", "money", "stages", "bill", "faults", "all", "repeat"):
        assert (
            browser.execute_script("return document.querySelectorAll(`#${arguments[0]} table tr`).length", section) > 1
        )


def test_bars_differ_by_more_than_their_colour(opened):
    browser = opened("small")
    fills = browser.execute_script(
        "return arguments[0].map(d=>getComputedStyle(document.querySelector(`.legend .d-${d}`)).fill)", list(Doing)
    )
    assert len({fill for fill in fills if fill.startswith("url")}) == len(Doing) - 1


def test_what_others_wrote_is_shown_and_not_run(opened):
    browser = opened("faulty")
    assert browser.title != "broken"
    assert browser.find_element("tag name", "h1").text.startswith(EVIL.split("\u202e")[0])
    assert browser.execute_script("return document.scripts.length") == 1


@pytest.mark.parametrize("name", ["small", "large"])
def test_nothing_is_asked_of_the_network_and_nothing_is_complained_of(opened, name):
    opened("small").get_log("performance")
    browser = opened(name)
    requests = [
        entry["message"] for entry in browser.get_log("performance") if 'requestWillBeSent"' in entry["message"]
    ]
    assert all('"url":"file://' in message or '"url":"data:' in message for message in requests)
    assert requests
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_a_thousand_trials_are_small_and_soon_there(opened, pages):
    assert (pages / "large.html").stat().st_size < 5_000_000
    browser = opened("large")
    drawn_s = browser.execute_async_script(
        "const done=arguments[0];requestAnimationFrame(()=>setTimeout(()=>done(performance.now()/1000)))"
    )
    assert drawn_s < 2.0
    rows, curves, words = browser.execute_script(
        "return [document.querySelectorAll('#trials-rows .row').length,"
        "document.querySelectorAll('#curves-chart .curve').length,"
        "document.querySelector('#trials-rows figcaption').textContent]"
    )
    assert rows == curves == ROWS
    assert words.startswith(f"{ROWS} of 1000 trials")
    assert (
        browser.execute_script("return document.querySelectorAll('#all details:first-of-type tbody tr').length") == 1000
    )
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


def _colours(browser):
    """Of texts: their colour and that of the page."""
    return browser.execute_script(
        "const b=getComputedStyle(document.body).backgroundColor,"
        "c=(s,p)=>[getComputedStyle(document.querySelector(s))[p],b];"
        "return {body:c('body','color'),caption:c('figcaption','color'),link:c('nav a','color'),tick:c('.tick','fill'),"
        "label:c('.label','fill')}"
    )


def _luminance(colour):
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
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
