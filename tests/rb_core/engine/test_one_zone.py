"""Whether a run asks for all its nodes in one zone: where a trial may come to span several of them."""

from __future__ import annotations

import pytest
from engine_world import World, plan, problem

from rb_core.testing.fakes import FakeProvider

WIDE = plan([(2, 1), (2, 2), (2, 4)])
NARROW = plan([(2, 1), (1, 2), (1, 2)])


class ZonedProvider(FakeProvider):
    """Remembers what it was asked, and how many nodes it had given by then."""

    def together(self, wanted: bool) -> None:
        self.asked = (wanted, len(self.books))


@pytest.mark.parametrize(
    ("chosen", "replan", "wanted"), [(WIDE, False, True), (NARROW, False, False), (NARROW, True, True)]
)
def test_a_zone_is_asked_for_before_the_first_node(chosen, replan, wanted):
    world = World()
    world.provider = ZonedProvider(world.clock, world.inbox, launch_s=30.0, init_s=60.0)
    world.run(problem(), chosen, replan=replan)
    assert world.provider.asked == (wanted, 0)
