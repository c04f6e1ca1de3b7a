"""How rows of the evaluation become CSV, Markdown and charts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_part import EVALUATION, measured

ROW = """
from dataclasses import dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    count: int
    share: float
    met: bool
    usd: float | None
"""


def test_rows_come_back_as_rounded_as_they_are_in_the_file(tmp_path):
    (tmp_path / "kind.py").write_text(ROW, encoding="utf-8")
    code = (
        "sys.path.append(sys.argv[1]); from kind import Row; from table import read_csv, write_csv; "
        "path = Path(sys.argv[1]) / 'rows.csv'; "
        "rows = [Row(name='a, b', count=3, share=1 / 3, met=True, usd=None), "
        "Row(name='', count=-1, share=-0.0, met=False, usd=1234.5)]; "
        "write_csv(path, rows); first, second = read_csv(path, Row); "
        "write_csv(Path(sys.argv[1]) / 'again.csv', [first, second]); "
        "assert (first.share, first.usd, first.met) == (0.3333333, None, True); "
        "assert second == rows[1]"
    )
    measured(code, str(tmp_path))
    assert (tmp_path / "rows.csv").read_text(encoding="utf-8") == (
        'name,count,share,met,usd\n"a, b",3,0.3333333,True,\n,-1,0,False,1234.5\n'
    )
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "rows.csv").read_bytes()


def refused(code: str, folder: Path) -> str:
    """The last line of what somebody is told who does that."""
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=EVALUATION, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_file_of_other_columns_is_refused(tmp_path):
    (tmp_path / "kind.py").write_text(ROW, encoding="utf-8")
    (tmp_path / "rows.csv").write_text("name,count\na,1\n", encoding="utf-8")
    code = "import sys; sys.path.append(sys.argv[1]); from pathlib import Path; from kind import Row; "
    code += "from table import read_csv; read_csv(Path(sys.argv[1]) / 'rows.csv', Row)"
    assert "rows.csv has the columns ['name', 'count']" in refused(code, tmp_path)


def test_nothing_measured_is_refused(tmp_path):
    code = "from pathlib import Path; from table import write_csv; write_csv(Path('x.csv'), [])"
    assert "no rows for x.csv" in refused(code, tmp_path)


@pytest.mark.parametrize(("align", "rule"), [("", "| --- | --- |"), ("lr", "| :--- | ---: |")])
def test_markdown(align, rule):
    expected = f"| a | b |\\n{rule}\\n| 1\\\\|2 | 3 |"
    measured(f"from table import markdown; assert markdown(['a', 'b'], [['1|2', '3']], {align!r}) == '{expected}'")


def test_a_row_of_another_length_is_refused(tmp_path):
    code = "from table import markdown; markdown(['a', 'b'], [['1']])"
    assert "a row of 1 cells under 2 columns" in refused(code, tmp_path)


def test_charts_have_the_same_bytes_twice(tmp_path):
    code = (
        "from chart import write_svg; "
        "draw = lambda figure: figure.subplots().plot([1, 2], [3, 4], label='line'); "
        "assert all(write_svg(Path(sys.argv[1]) / name, draw, width_in=3, height_in=2) for name in ('a.svg', 'b.svg'))"
    )
    measured(code, str(tmp_path))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert b"<svg" in (tmp_path / "a.svg").read_bytes()


def test_without_matplotlib_an_old_chart_is_removed(tmp_path):
    (tmp_path / "a.svg").write_text("of other figures", encoding="utf-8")
    code = (
        "sys.modules['matplotlib'] = None; from chart import write_svg; "
        "assert not write_svg(Path(sys.argv[1]) / 'a.svg', print, width_in=3, height_in=2)"
    )
    measured(code, str(tmp_path))
    assert not (tmp_path / "a.svg").exists()
