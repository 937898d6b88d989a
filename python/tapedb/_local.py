"""What belongs to one process."""

from __future__ import annotations

from typing import Any, NoReturn


class Local:
    """An object that cannot be pickled or copied: its files, threads and connections are those of this process."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} belongs to its process and cannot be pickled or copied; open the database again where it is needed")
