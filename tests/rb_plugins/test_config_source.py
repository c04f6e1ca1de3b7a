from __future__ import annotations

import pytest

from rb_core.errors import InvalidInput
from rb_plugins.config.durations import factor, seconds
from rb_plugins.config.source import read_table


@pytest.fixture
def read(tmp_path):
    def read(text: str | bytes, name: str = "f.json", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, **options)

    return read


def test_json_and_toml_give_the_same_values(read):
    wanted = {"a": {"b": [1, 2.5, "x", True]}}
    assert read('{"schema": 1, "a": {"b": [1, 2.5, "x", true]}}') == wanted
    assert read('\ufeff{"a": {"b": [1, 2.5, "x", true]}}') == wanted
    assert read('[a]\nb = [1, 2.5, "x", true]\n', "f.TOML") == wanted


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ('{"a": 1,\n "b" 2}', "f.json", "is not valid JSON: Expecting ':' delimiter (at line 2, column 6)"),
        ("", "f.json", "is not valid JSON: Expecting value (at line 1, column 1)"),
        ('a = "x\n', "f.toml", "is not valid TOML: Illegal character '\\n' (at line 1, column 7)"),
        ("a = [1,\n", "f.toml", "is not valid TOML: Invalid value (at line 2, column 1)"),
        ("a = 1\na = 2\n", "f.toml", "is not valid TOML: Cannot overwrite a value (at line 2, column 6)"),
        ("[1]", "f.json", "must hold one object with keys, not a list or a single value"),
        (b"\xff{}", "f.json", "must be UTF-8 text; byte 0 is not"),
        ("9" * 5000, "f.json", "holds a number that cannot be read: "),
        ('{"a":' * 5000, "f.json", "is nested too deeply"),
    ],
)
def test_wrong_syntax_names_file_line_and_column(read, text, name, problem):
    with pytest.raises(InvalidInput) as caught:
        read(text, name)
    assert caught.value.key.endswith(name)
    assert caught.value.problem.startswith(problem)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": {"b": [{"c": 1, "c": 2}]}}', "a.b[0].c: is given twice; leave one out"),
        ('{"a": {"b": null}}', "a.b: must not be null; leave the key out instead"),
        ('{"a": [NaN]}', "a[0]: must be a finite number, got nan"),
        ('{"a": 1e999}', "a: must be a finite number, got inf"),
        ('{"a": "\\ud800"}', "a: must hold valid Unicode text, got '\\ud800'"),
        ('{"schema": 7, "new": 1}', "schema: must be 1, the one version that this release knows, got 7"),
        ('{"schema": "1"}', "schema: must be 1, the one version that this release knows, got '1'"),
    ],
)
def test_values_that_the_schema_does_not_know_are_named(read, text, message):
    with pytest.raises(InvalidInput) as caught:
        read(text)
    assert str(caught.value) == message


def test_nulls_are_values_where_they_are_asked_for(read):
    assert read('{"a": {"b": null}}', nulls_under=("a",)) == {"a": {"b": None}}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InvalidInput) as caught:
            read_table(path)
        assert caught.value.key == str(path)


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("0.5s", 0.5), ("45m", 2700), ("1h30m", 5400), ("1h1m1s", 3661), ("1.5h", 5400)]
)
def test_durations(text, value):
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "90", "s", "-1s", "1 h", "1m1h", "1s1s", "1d", "1e3s", "٣s", "1h30"])
def test_what_is_no_duration(text):
    with pytest.raises(InvalidInput, match="must be seconds or a duration"):
        seconds(text)


def test_factors():
    assert factor("1.5x") == 1.5
    assert factor("x") is factor("1.5") is factor("-1x") is None
