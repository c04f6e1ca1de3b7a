"""A program with a launcher `ray`, a node and a trial that waits, for tests that kill it.

``python launchdriver.py FOLDER`` says the pids of the trial's rank and of all processes above it but the last, then
waits.
"""

from __future__ import annotations

import sys
from pathlib import Path

from launched import TRAINED, above, joined, on

from rb_core.target import Target
from rb_core.testing.launching_contract import Story
from rb_core.trial import Remark

if __name__ == "__main__":
    with joined(Target.parse(f"{TRAINED}:act")) as home:
        (node,) = home.launch(1)
        story = Story(home.launcher, on(home.slots(node), Path(sys.argv[1]), config={"act": "waits"}))
        rank = int(story.until(Remark).text)
        sys.stdout.write(" ".join(str(pid) for pid in (rank, *above(rank, 3))) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
