"""The driver of a run on EC2, killed: before, within and after each log write, and before and after each call that
changes something. Then the run is resumed, or collected, and nothing of it may be left.

    ./dev crash                      1,000 kill points by chance
    ./dev crash --every              every kill point of every condition
    ./dev crash --first 17 --runs 1  the one of that number again
"""

from __future__ import annotations

from crash_ec2.case import After, Case, Condition, case_of, relay_of
from crash_ec2.ordeal import Outcome, kill_points, outcome

__all__ = ["After", "Case", "Condition", "Outcome", "case_of", "kill_points", "outcome", "relay_of"]
