"""An inbox in front of another one, for providers that stand between a provider and its user."""

from __future__ import annotations

from collections.abc import Callable

from rb_core.ports import Inbox, Notice


class Between:
    """Hears what is put into it, in the thread that puts it; nothing goes on by itself.

    Args:
        hear: told each notice.
        inbox: the one behind, which notices are taken out of.
    """

    def __init__(self, hear: Callable[[Notice], None], inbox: Inbox) -> None:
        self._hear = hear
        self._inbox = inbox

    def put(self, notice: Notice) -> None:
        """Hear it."""
        self._hear(notice)

    def get(self, until_s: float | None = None) -> Notice | None:
        """As the inbox behind."""
        return self._inbox.get(until_s)
