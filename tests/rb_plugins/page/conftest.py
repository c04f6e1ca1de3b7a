"""A browser without a window, driven by the system's chromedriver, and the pages that it looks at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from page_cases import profile_text, story
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from rb_plugins.page.document import write


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
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def pages(tmp_path_factory) -> Path:
    """A folder of pages by their names."""
    folder = tmp_path_factory.mktemp("pages")
    stories = {
        "small": story(10),
        "faulty": story(16, faulty=True, evil=True),
        "large": story(1000, faulty=True),
        "parallel": story("parallel", faulty=True),
        "sequential": story("sequential", faulty=True),
    }
    for name, told in stories.items():
        write(told, folder / f"{name}.html")
    (folder / "profile.html").write_text(profile_text(), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages):
    """Open a page: its name, the window's width, and whether it is dark."""

    def opened(name: str, *, width: int = 1100, dark: bool = False):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        browser.get((pages / f"{name}.html").as_uri())
        return browser

    return opened
