"""What is closed at the end of a `with` block."""

from __future__ import annotations

from typing import Self

from ._local import Local


class Closing(Local):
    """A context manager whose end closes the object."""

    def close(self) -> None:
        """Closes the object."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
