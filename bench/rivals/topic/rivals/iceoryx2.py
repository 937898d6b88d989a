"""iceoryx2: a service with a buffer of 1,024 messages, whose publisher waits rather than losing any."""

from pathlib import Path

from . import rust

_PACKAGE = "tapedb-rival-iceoryx2"


class Iceoryx2:
    """See the module."""

    key = "iceoryx2"
    title = "iceoryx2"
    rehearsal_seconds = 0.2

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def install(self) -> None:
        """With Cargo."""
        rust.build(_PACKAGE, self._cache)

    def program(self) -> list[str]:
        """Built by `install`."""
        return rust.program(_PACKAGE, self._cache)
