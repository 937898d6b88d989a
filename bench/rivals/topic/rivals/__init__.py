"""The rivals, each in a file of its own, set up as its own users would."""

from pathlib import Path
from typing import Protocol


class Rival(Protocol):
    """A program that measures one way to carry messages; `rust/rules` and `java/rules` say what it reads and prints."""

    # In the names of figures.
    key: str
    # In the tables.
    title: str
    # How long each work is done before anything is measured.
    rehearsal_seconds: float

    def install(self) -> None:
        """Installs it into the cache folder, where it is not there yet."""
        ...

    def program(self) -> list[str]:
        """The command that runs it."""
        ...


def rivals(cache: Path) -> list[Rival]:
    """All, in the order of the tables."""
    from .aeron_c import AeronC
    from .aeron_java import AeronJava
    from .chronicle import Chronicle
    from .iceoryx2 import Iceoryx2

    return [AeronC(cache), AeronJava(cache), Iceoryx2(cache), Chronicle(cache)]
