"""The configuration as the training function gets it: a dict that remembers which of its keys were read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_values


class Configuration(dict[str, Any]):
    """A dict of plain Python values (numpy's scalars are converted) that knows which keys were read.

    Reading all of it at once, by iterating, ``**config``, ``items()``, ``values()`` or ``copy()``, reads every
    key; printing and comparing read none.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()})
        self._given = frozenset(values)
        self._read: set[str] = set()

    def keys_read(self) -> tuple[str, ...]:
        """The keys of the configuration that were read so far, sorted."""
        return tuple(sorted(self._read & self._given))

    def __getitem__(self, key: str) -> Any:
        self._read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._read.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._read_all()
        return super().__iter__()

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return (dict, (self.copy(),))

    def get(self, key: str, default: Any = None) -> Any:
        """As `dict.get`."""
        self._read.add(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """As `dict.pop`; a key that was taken out counts as read."""
        value = super().pop(key, *default)
        self._read.add(key)
        return value

    def items(self) -> dict_items[str, Any]:
        """As `dict.items`."""
        self._read_all()
        return super().items()

    def values(self) -> dict_values[str, Any]:
        """As `dict.values`."""
        self._read_all()
        return super().values()

    def copy(self) -> dict[str, Any]:
        """A plain dict."""
        self._read_all()
        return {key: super(Configuration, self).__getitem__(key) for key in self.keys()}

    def _read_all(self) -> None:
        self._read.update(self.keys())
