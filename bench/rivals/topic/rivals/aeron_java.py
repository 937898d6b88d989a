"""Aeron IPC with driver and client in Java; exclusive publication, terms of 16 MiB, driver embedded."""

from pathlib import Path

from . import java

# Bounds checks off and memory touched early, as its makers advise for production.
_OPTIONS = [
    "-XX:+UseParallelGC",
    "-Dagrona.disable.bounds.checks=true",
    "-Daeron.pre.touch.mapped.memory=true",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
]


class AeronJava:
    """See the module."""

    key = "aeron-java"
    title = "Aeron IPC, Java"
    # The JVM compiles what is hot.
    rehearsal_seconds = 2.0

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def install(self) -> None:
        """With Maven and javac."""
        java.install("aeron", self._cache)

    def program(self) -> list[str]:
        """Compiled by `install`."""
        return java.program("aeron", "AeronIpc", _OPTIONS, self._cache)
