import json
import sys

import pytest
from click.testing import CliRunner

from rb_core.errors import InvalidInput, RubberBandError
from rb_plugins.cli import main
from rb_plugins.picture import Picture

PICTURE = Picture(
    front=[(10.0, 5.0), (20.0, 3.0), (40.0, 1.0)], marks={"static": (40.0, 5.0), "chosen (exact)": (20, 3)}
)


def test_points_stand_where_they_belong():
    lines = PICTURE.text().splitlines()
    field = [line.partition("|")[2] for line in lines[:16]]
    assert (field[0][0], field[0][63], field[15][63]) == ("o", "A", "o")
    assert [line.index("*") for line in field if "*" in line] == [round(10 / 30 * 63)]
    assert lines[-1] == "o front   A static   * chosen (exact)"
    assert "10.0 s" in lines[-2]
    assert lines[-2].endswith("40.0 s")
    assert lines[0].startswith("5.000 usd |")


def test_a_front_of_one_point_is_a_picture_too():
    assert Picture(front=[(1.0, 0.0)], marks={}).text().splitlines()[15] == "0.00 usd |o"


FAR = Picture(front=[(10.0, 31.0), (20.0, 9.0), (30.0, 5.0), (40.0, 1.0)], marks={"static": (40.0, 8.0)})


def test_a_plan_far_dearer_than_the_rest_does_not_flatten_them(tmp_path):
    lines = FAR.text().splitlines()
    field = [line.partition("|")[2] for line in lines[:16]]
    assert lines[0].startswith("9.000 usd |")
    assert [column for column, letter in enumerate(field[0]) if letter == "o"] == [0, 21]
    assert field[7].index("o") == 42
    assert lines[-1] == "o front (off the scale: up to 31.00 usd)   A static"
    FAR.write(tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert "off the scale: up to 31.00 usd" in drawn
    assert ">8</text>" in drawn, "the cost axis has no tick at 8 usd, so it goes up to the dearest"


@pytest.mark.parametrize(
    "points",
    [
        Picture(front=[(10.0, 21.0), (20.0, 9.0), (30.0, 5.0), (40.0, 1.0)], marks={}),
        Picture(front=FAR.front, marks={"static": (40.0, 31.0)}),
    ],
    ids=["at three times the median", "no dearer than a mark"],
)
def test_what_is_on_the_scale_is_shown_on_it(points):
    assert points.ceiling_usd == points.front[0][1]
    assert "off the scale" not in points.text()


def test_a_file_is_drawn_the_same_each_time(tmp_path):
    for name in ("a.svg", "b.svg", "c.png"):
        PICTURE.write(tmp_path / name)
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    for words in ("time in s", "cost in usd", "static", "chosen (exact)"):
        assert words in drawn
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_drawn_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match=r"--picture: must end in \.svg or \.png"):
        PICTURE.write(tmp_path / "a.pdf")
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        PICTURE.write(tmp_path / "absent" / "a.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RubberBandError, match=r"pip install 'rubberband-tune\[report\]'"):
        PICTURE.write(tmp_path / "a.svg")


def test_pareto_draws_and_marks_the_chosen_plan(tmp_path):
    problem = {
        "experiment": {"stages": [{"trials": 4, "iterations": 10}, {"trials": 1, "iterations": 20}]},
        "profile": {"iteration_s": {"1": 10, "2": 6}},
        "cloud": {"instance_types": [{"name": "a", "slots": 2, "usd_per_hour": 3.6}], "max_nodes": 2},
    }
    path, drawn = tmp_path / "p.json", tmp_path / "front.svg"
    path.write_text(json.dumps(problem))
    assert "chosen" not in CliRunner().invoke(main, ["pareto", str(path)]).stdout
    path.write_text(json.dumps({**problem, "objective": {"deadline_s": "1.5x"}}))
    result = CliRunner().invoke(main, ["pareto", str(path), "--picture", str(drawn)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "* chosen (exact)" in result.stdout
    assert "chosen (exact)" in drawn.read_text()
    path.write_text(json.dumps({**problem, "objective": {"deadline_s": 1}}))
    assert CliRunner().invoke(main, ["pareto", str(path)]).exit_code == 0
    refused = CliRunner().invoke(main, ["pareto", str(path), "--picture", "front.pdf"])
    assert (refused.exit_code, refused.stdout) == (2, "")
