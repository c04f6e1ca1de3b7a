"""Every block of every page does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_page import play
from source_tree import ROOT

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_page_does_what_it_says(page, tmp_path):
    play(page, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "<!-- next: long" in page.read_text(encoding="utf-8")], ids=shown
)
def test_a_page_with_its_long_blocks(page, tmp_path):
    play(page, tmp_path, long=True)
