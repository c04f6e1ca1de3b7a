"""The example in the README, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

SCRIPT = ROOT / "examples" / "standalone" / "tune_digits.py"


def shown_in(readme: Path) -> str:
    """The Python code of a README that stands below "From Python"."""
    section = readme.read_text(encoding="utf-8").partition("## From Python")[2].partition("\n## ")[0]
    code = re.search(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert code is not None
    return code[1]


def test_the_readme_shows_the_script_in_under_25_lines():
    assert shown_in(ROOT / "README.md") == SCRIPT.read_text(encoding="utf-8")
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 25


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_tunes_the_digits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", shown_in(ROOT / "README.md")],
        cwd=ROOT,
        env={**os.environ, "RB_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    best, figures = done.stdout.splitlines()
    assert float(best.split()[0]) > 0.95
    assert Path(best.rpartition(": ")[2]).is_file()
    assert re.fullmatch(r"\d+ s of \d+ s, 0\.\d{4} usd", figures)
