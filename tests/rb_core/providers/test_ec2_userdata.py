from __future__ import annotations

import ast
import base64
import inspect
import json
import subprocess
import sys
import zlib

import pytest

from rb_core.errors import InvalidInput
from rb_core.ports import Bootstrap
from rb_core.providers.ec2 import agent
from rb_core.providers.ec2.settings import Ec2Settings
from rb_core.providers.ec2.userdata import MOST_BYTES, user_data

TOKEN = "5ec3e7" * 10


def script(count: int = 1, *, setup: tuple[str, ...] = (), lifetime_s: float = 3601.0) -> str:
    nodes = [f"digits-20261202-1f3a9c-{number}" for number in range(count)]
    slots = '{"rb:digits-20261202-1f3a9c": 4, "rb:digits-20261202-1f3a9c:%s": 4}'
    start = (sys.executable, "-m", "rb_ray.nodes.starting", "--address", "10.0.12.34:43125", "--resources")
    return user_data(
        run="digits-20261202-1f3a9c",
        attempt="c0ffee" * 5,
        nodes=nodes,
        bootstraps={
            name: Bootstrap(argv=(*start, slots % name), env={"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN})
            for name in nodes
        },
        lifetime_s=lifetime_s,
        lease_s=600.0,
        settings=Ec2Settings(python="/opt/venv/bin/python", setup=setup),
        region="us-east-1",
        parameter="/rubberband/digits-20261202-1f3a9c",
    )


def parts(text: str) -> dict[str, str]:
    packed = text.partition("<<'END'\n")[2].partition("\nEND\n")[0]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


@pytest.mark.parametrize(("lifetime_s", "minutes"), [(3600.0, 60), (3601.0, 61), (600.0, 10)])
def test_its_end_is_armed_before_anything_else(lifetime_s, minutes):
    assert script(lifetime_s=lifetime_s).splitlines()[:2] == ["#!/bin/bash", f"shutdown -h +{minutes}"]


def test_it_is_a_script_that_bash_understands():
    subprocess.run(["bash", "-n"], input=script(3, setup=("echo 'a' \"b\" $c",)), text=True, check=True)


def test_it_carries_the_agent_and_what_each_node_is_to_run():
    found = parts(script(2, setup=("pip install x",)))
    assert found["agent.py"] == inspect.getsource(agent)
    payload = json.loads(found["payload.json"])
    assert payload["setup"] == ["pip install x"]
    assert [name for name, _ in payload["nodes"]] == ["digits-20261202-1f3a9c-0", "digits-20261202-1f3a9c-1"]
    assert [argv[:3] for _, argv in payload["nodes"]] == [["/opt/venv/bin/python", "-m", "rb_ray.nodes.starting"]] * 2


def test_it_holds_no_secret():
    text = script(2)
    assert TOKEN not in text
    assert TOKEN not in json.dumps(parts(text))


def test_equal_launches_have_equal_scripts():
    assert script(5) == script(5)


def test_64_nodes_fit_with_room_for_setup_commands():
    assert len(script(64, setup=("pip install a b c",) * 10).encode()) < 12_000


def test_what_is_larger_than_ec2_takes_is_refused_with_the_remedy():
    noise = base64.b64encode(b"".join(zlib.crc32(b"%d" % n).to_bytes(4, "big") for n in range(4000))).decode()
    with pytest.raises(InvalidInput, match=rf"settings\.setup.*EC2 takes {MOST_BYTES}.*image or a bucket"):
        script(1, setup=(noise,))


def test_the_agent_runs_on_python_3_8_and_imports_the_standard_library_alone():
    tree = ast.parse(inspect.getsource(agent), feature_version=(3, 8))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= sys.stdlib_module_names


def test_a_node_that_boots_again_ends(tmp_path):
    text = script()
    place = "/var/lib/cloud/scripts/per-boot"
    assert text.count(place) == 1
    block = text[text.index("per_boot=") : text.index("umask")].replace(place, str(tmp_path))
    subprocess.run(["bash", "-c", block], check=True)
    (left,) = tmp_path.iterdir()
    assert left.read_text() == "#!/bin/sh\nshutdown -h now\n"
    assert left.stat().st_mode & 0o111


def test_an_image_without_cloud_init_is_left_as_it_is(tmp_path):
    text = script()
    block = text[text.index("per_boot=") : text.index("umask")]
    away = block.replace("/var/lib/cloud/scripts/per-boot", str(tmp_path / "none"))
    subprocess.run(["bash", "-c", away], check=True)
    assert list(tmp_path.iterdir()) == []
