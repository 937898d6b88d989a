"""The rivals, each in a file of its own, set up as its own users would."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

# Records in a message where users pack them themselves.
PACKED = 100


@dataclass(frozen=True)
class Case:
    """One way to use a rival."""

    # In the names of figures.
    key: str
    # In the table.
    title: str
    # For the measuring program.
    settings: dict[str, str] = field(default_factory=dict)
    measures_throughput: bool = True
    measures_latency: bool = False


class Rival(Protocol):
    """A server, and the program that measures it."""

    key: str
    cases: tuple[Case, ...]
    # How long a server that was just started is used, with the first case, before anything is measured.
    rehearsal_seconds: float

    def install(self) -> None:
        """Installs both into the cache folder, where they are not there yet."""
        ...

    def serve(self, folder: Path) -> AbstractContextManager[str]:
        """Runs the server on loopback, its data in an empty folder; gives the address for clients."""
        ...

    def program(self) -> list[str]:
        """The measuring program."""
        ...


def rivals(cache: Path) -> list[Rival]:
    """All, in the order of the table."""
    from .jetstream import JetStream
    from .kafka import Kafka

    return [JetStream(cache), Kafka(cache)]
