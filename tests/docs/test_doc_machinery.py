"""What runs the pages sees what is wrong with them."""

from __future__ import annotations

import pytest
from doc_blocks import PageError, blocks_of
from doc_console import commands, matches
from doc_page import not_run, play


def page(tmp_path, text):
    tmp_path.mkdir(exist_ok=True)
    file = tmp_path / "page.md"
    file.write_text(text.replace("'''", "```"), encoding="utf-8")
    return file


def fault(tmp_path, text):
    """What is found to be wrong with a page."""
    with pytest.raises(PageError) as wrong:
        play(page(tmp_path, text), tmp_path / "folder")
    return str(wrong.value)


PROBLEM = """\
<!-- hidden
'''toml problem.toml
experiment = {stages = [{trials = 2, iterations = 1}, {trials = 1, iterations = 1}]}
profile = {iteration_s = {1 = 1.0}}
cloud = {instance_types = [{name = "box", slots = 1, usd_per_hour = 1.0}]}
objective = {deadline_s = 60}
'''
-->
"""


def test_a_page_that_works(tmp_path):
    text = """\
'''python
answer = 6 * 7
'''

Some words.

'''python
print(answer)
'''

<!-- next: output -->

'''text
4...
'''

'''console
$ value=one
$ echo $value \\
    two
one ...
$ rb-tune plan problem.toml
...
all ... usd
...
'''

<!-- next: status 3 -->
<!-- next: read SHORT 1s -->

'''console
$ sed 's/60/"SHORT"/' problem.toml > short.toml; rb-tune plan short.toml
error: ...
...
'''

<!-- next: into problem.toml -->

'''toml
[cloud]
max_nodes = 2
'''
"""
    assert play(page(tmp_path, PROBLEM + text), tmp_path / "folder") == 7


def test_an_exception_is_told_with_its_line_of_the_page(tmp_path):
    said = fault(tmp_path, "Words.\n\n'''python\nx = 1\nx / 0\n'''\n")
    assert "page.md, line 4" in said
    assert 'page.md", line 5, in <module>\n    x / 0' in said
    assert "ZeroDivisionError" in said


def test_a_wrong_output_of_python_is_told(tmp_path):
    said = fault(tmp_path, "'''python\nprint(1)\n'''\n<!-- next: output -->\n\n'''text\n2\n'''\n")
    assert "-2\n+1" in said


def test_a_wrong_output_of_a_command_is_told(tmp_path):
    assert "-two\n+one" in fault(tmp_path, "'''console\n$ echo one\ntwo\n'''\n")


def test_a_command_that_fails_is_told(tmp_path):
    assert "the status is 1" in fault(tmp_path, "'''console\n$ false\n'''\n")


def test_a_command_that_should_fail_and_does_not_is_told(tmp_path):
    assert "the status is 0" in fault(tmp_path, "<!-- next: status 3 -->\n\n'''console\n$ true\n'''\n")


def test_a_shell_that_ends_is_told(tmp_path):
    assert "the status is -1" in fault(tmp_path, "'''console\n$ exit\n'''\n")


def test_an_interpreter_that_ends_is_told(tmp_path):
    assert "it raises, or takes too long" in fault(tmp_path, "'''python\nimport os\nos._exit(0)\n'''\n")


def test_an_unknown_key_is_told(tmp_path):
    said = fault(tmp_path, PROBLEM + "<!-- next: into problem.toml -->\n\n'''toml\n[cloud]\nmax_node = 2\n'''\n")
    assert "cloud.max_node" in said


def test_an_unknown_key_of_a_file_of_its_own_is_told(tmp_path):
    assert "node_los_per_hour" in fault(tmp_path, "'''toml faults.toml\nnode_los_per_hour = 1.0\n'''\n")


def test_toml_that_is_none_is_told(tmp_path):
    assert "faults.toml: " in fault(tmp_path, "'''toml faults.toml\nnode_loss_per_hour = \n'''\n")


def test_an_entry_point_that_leads_nowhere_is_told(tmp_path):
    said = fault(tmp_path, "'''toml pyproject.toml\n[project.entry-points.rubberband]\na = \"nothing_there\"\n'''\n")
    assert "project.entry-points.rubberband.a" in said


@pytest.mark.parametrize("info", ["", "pyhton", "sh"])
def test_a_fence_of_no_known_language_is_told(tmp_path, info):
    assert "language" in fault(tmp_path, f"'''{info}\nx\n'''\n")


def test_indented_code_is_told(tmp_path):
    assert "fence it" in fault(tmp_path, "Words.\n\n    x = 1\n")


@pytest.mark.parametrize("comment", ["hiden\n'''python\n'''\n", "next: stauts 3", "next: status", "anything"])
def test_a_comment_that_nobody_knows_is_told(tmp_path, comment):
    assert "nobody knows" in fault(tmp_path, f"<!-- {comment} -->\n\n'''python\n'''\n")


def test_a_comment_without_its_block_is_told(tmp_path):
    assert "no block follows" in fault(tmp_path, "<!-- next: long -->\n\nWords.\n")


def test_what_is_to_be_read_otherwise_must_be_there(tmp_path):
    assert "there is no '100'" in fault(tmp_path, "<!-- next: read 100 5 -->\n\n'''console\n$ echo 10\n'''\n")


def test_lines_of_a_difference_must_be_in_their_files(tmp_path):
    text = "<!-- next: between dev README.md -->\n\n'''diff\n- set -euo pipefail\n+ # rubberband-tune\n{}'''\n"
    assert play(page(tmp_path, text.format("")), tmp_path / "folder") == 1
    assert "README.md does not hold 'set -euo pipefail'" in fault(
        tmp_path / "again", text.format("+ set -euo pipefail\n")
    )


def test_a_long_block_is_left_out_unless_asked_for(tmp_path):
    file = page(tmp_path, "<!-- next: long -->\n\n'''python\n1 / 0\n'''\n")
    assert play(file, tmp_path / "folder") == 0
    with pytest.raises(PageError):
        play(file, tmp_path / "again", long=True)


def test_a_block_in_a_list_stands_at_its_own_margin(tmp_path):
    (block,) = blocks_of(page(tmp_path, "1. Words:\n\n   '''python\n   if True:\n       x = 1\n   '''\n"))
    assert block.text == "if True:\n    x = 1\n"


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("./dev test", ""),
        ("./dev nothing", "no such command"),
        ("pip install 'rubberband-tune[aws,ray]'    # both", ""),
        ("pip install 'rubberband-tune[aws,none]'", "no such extra: none"),
        ("pip install ./examples/sample_plugin", ""),
        ("pip install ./examples/none", "there is no project in ./examples/none"),
        ("rb-tune plan problem.toml", None),
    ],
)
def test_what_is_looked_at_and_not_run(words, wrong):
    (command,) = commands(f"$ {words}\n")
    assert not_run(command) == wrong


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a", "a\n", True),
        ("a", "b", False),
        ("a", "a\nb", False),
        ("a ... c", "a b c", True),
        ("a ... c", "a\nc", False),
        ("...\nc", "a\nb\nc", True),
        ("a\n...", "a", True),
        ("a.c", "abc", False),
    ],
)
def test_outputs(shown, printed, same):
    assert matches(shown, printed) is same
