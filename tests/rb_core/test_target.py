import os
import sys
import textwrap

import pytest

from rb_core.errors import InvalidInput
from rb_core.target import Target


def good(config, trial):
    return "good"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of modules; what importing them changed is put back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder, name, text):
    file = folder / name
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(textwrap.dedent(text))
    return file


def test_a_function_of_a_file_is_loaded_with_its_neighbours(folder):
    write(folder, "neighbour_of_mine.py", "ANSWER = 42\n")
    write(folder, "my_train.py", "from neighbour_of_mine import ANSWER\ndef train(config, trial): return ANSWER\n")
    target = Target.parse("my_train.py:train", folder)
    assert target.load()({}, None) == 42
    assert target.load() is target.load()
    assert sys.modules["my_train"].train is target.load()


def test_parsing_imports_nothing(folder):
    write(folder, "loud_train.py", "raise ValueError\ndef train(config, trial): pass\n")
    assert Target.parse("loud_train.py:train", folder).name == "loud_train.py:train"


def test_a_function_of_a_module_is_loaded_from_the_folder(folder):
    write(folder, "my_package/__init__.py", "")
    write(folder, "my_package/training.py", "def train(config, trial): return 7\n")
    assert Target.parse("my_package.training:train", folder).load()({}, None) == 7


@pytest.mark.parametrize("name", ["json.py", "not-a-name.py"])
def test_a_file_may_be_called_like_a_module_of_python(folder, name):
    write(folder, name, "def train(config, trial): return 'mine'\n")
    assert Target.parse(f"{name}:train", folder).load()({}, None) == "mine"
    import json

    assert json.loads("1") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train.py", "must be FILE.py:FUNCTION or package.module:FUNCTION, got 'train.py'"),
        (":train", "must be FILE.py:FUNCTION"),
        ("my.py:", "must be FILE.py:FUNCTION"),
        ("my.py:a-b", "must be FILE.py:FUNCTION"),
        ("some file:train", "a file ends with .py"),
        ("missing.py:train", "missing.py could not be read: No such file or directory"),
        ("broken.py:train", r"broken.py is not valid Python: .* \(line 2\)"),
        ("my.py:tran", "there is no 'tran' in .*my.py; its functions are other, train"),
        ("empty.py:train", "it holds no functions"),
    ],
)
def test_a_bad_reference_is_refused_before_anything_is_imported(folder, text, message):
    write(folder, "my.py", "def train(config, trial): pass\ndef other(): pass\n")
    write(folder, "broken.py", "x = 1\ndef train(:\n")
    write(folder, "empty.py", "")
    with pytest.raises(InvalidInput, match=message) as caught:
        Target.parse(text, folder)
    assert caught.value.key == "train.target"


@pytest.mark.parametrize(
    "body",
    [
        "if True:\n    def train(config, trial): pass",
        "try:\n    from math import train\nexcept ImportError:\n    train = lambda config, trial: None",
        "from os.path import *\nglobals()['train'] = lambda config, trial: None",
        "class train:\n    def __init__(self, config, trial): pass",
        "import functools\ndef f(x, config, trial): pass\ntrain = functools.partial(f, 1)",
        "def train(config, trial, extra=None, **more): pass",
        "def train(*anything): pass",
    ],
)
def test_every_way_to_bind_the_name_is_found(folder, body):
    write(folder, "binds.py", body)
    assert callable(Target.parse("binds.py:train", folder).load())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("train = 3", "must be a function, got a int"),
        ("def train(config): pass", r"must accept \(config, trial\), but its signature is \(config\)"),
        ("def train(a, b, c): pass", "missing a required argument: 'c'"),
        ("def train(config, trial, *, lr): pass", "missing a required argument: 'lr'"),
        ("async def train(config, trial): pass", "must be a plain function"),
        ("def train(config, trial): yield", "must be a plain function"),
        ("import no_such_module\ntrain = 1", "ModuleNotFoundError"),
        ("def train(config, trial): pass\nraise RuntimeError('one\\ntwo')", r": one \(bad.py, line 2\); mend it$"),
        ("train = 1\ndel train", "there is no 'train' in bad"),
    ],
)
def test_a_function_that_is_no_use_is_refused_on_loading(folder, body, message):
    write(folder, "bad.py", body)
    with pytest.raises(InvalidInput, match=message) as caught:
        Target.parse("bad.py:train", folder).load()
    assert caught.value.key == "train.target"


def test_a_missing_module_or_function_is_refused_on_loading(folder):
    with pytest.raises(InvalidInput, match=r"no_such_package\.train:train could not be imported: ModuleNotFoundError"):
        Target.parse("no_such_package.train:train", folder).load()
    with pytest.raises(InvalidInput, match=r"there is no 'train' in textwrap; its functions are .*dedent"):
        Target.parse("textwrap:train", folder).load()


def test_a_function_object_is_sent_along():
    held = os.getpid()
    assert Target.of(lambda config, trial: held).load()({}, None) == held
    assert Target.of(good).load()({}, None) == "good"
    assert Target.of(good).name == "good"


def test_a_function_object_that_is_no_use_is_refused():
    with pytest.raises(InvalidInput, match="must accept"):
        Target.of(lambda config: None)
    with pytest.raises(InvalidInput, match="must be a function"):
        Target.of(3)
    generator = (n for n in range(3))
    with pytest.raises(InvalidInput, match="cannot be sent to other processes"):
        Target.of(lambda config, trial: generator)
