"""Aeron IPC with driver and client in C, through `rusteron`; exclusive publication, terms of 16 MiB, driver embedded."""

from pathlib import Path

from . import rust

_PACKAGE = "tapedb-rival-aeron"


class AeronC:
    """See the module."""

    key = "aeron-c"
    title = "Aeron IPC, C"
    rehearsal_seconds = 0.2

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def install(self) -> None:
        """With Cargo, which has CMake build Aeron."""
        rust.build(_PACKAGE, self._cache)

    def program(self) -> list[str]:
        """Built by `install`."""
        libraries = rust.libraries("rusteron-media-driver", self._cache)
        return ["env", f"LD_LIBRARY_PATH={libraries}", *rust.program(_PACKAGE, self._cache)]
