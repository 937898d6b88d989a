"""Chronicle Queue in shared memory; the publisher has no back-pressure, and the queue keeps all until it is removed."""

from pathlib import Path

from . import java

# What it asks for on Java 17 and later.
_OPTIONS = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    # It would tell its makers of each use.
    "-Dchronicle.analytics.disable=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
]


class Chronicle:
    """See the module."""

    key = "chronicle"
    title = "Chronicle Queue"
    # The JVM compiles what is hot.
    rehearsal_seconds = 2.0

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def install(self) -> None:
        """With Maven and javac."""
        java.install("chronicle", self._cache)

    def program(self) -> list[str]:
        """Compiled by `install`."""
        return java.program("chronicle", "ChronicleQueue", _OPTIONS, self._cache)
