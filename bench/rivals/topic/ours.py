"""TapeDB's own figures, measured in the same rounds by `tapedb bench topic`, if this `tapedb` has it."""

import re
import subprocess
from pathlib import Path

from common.process import ProcessError, output
from common.report import Row

from .works import Work

KEY = "tapedb"
TITLE = "**TapeDB**"
_SECONDS_MAX = 600
_ROUND_TRIPS = re.compile(r"cross-core round trip (\d+) ns before, (\d+) ns after")


class Ours:
    """The benchmark of one `tapedb`; nothing if there is no such file."""

    def __init__(self, tapedb: Path) -> None:
        self._tapedb = tapedb
        self._is_known = tapedb.exists() and self._knows()

    def missing(self) -> str | None:
        """Why it is left out."""
        if not self._tapedb.exists():
            return f"TapeDB left out: {self._tapedb} is not there; name it with --tapedb"
        return None if self._is_known else "TapeDB left out: no `tapedb bench topic`"

    def measure(self, work: Work, seconds: float) -> list[Row]:
        """One run of one case."""
        if not self._is_known:
            return []
        return self._rows(f"topic.{work.key}", seconds)

    def stall_ms(self, seconds: float) -> float:
        """How long nothing can be published when a subscriber is killed."""
        rows = self._rows("topic.killed", seconds)
        if not rows:
            raise ProcessError("tapedb bench topic does not know the case topic.killed")
        return rows[0].value

    def _rows(self, case: str, seconds: float) -> list[Row]:
        # A case's whole name chooses it alone.
        bench = ["topic", "--only", case, "--time", f"{seconds:g}s", "--runs", "1", "--json"]
        text = output([str(self._tapedb), "bench", *bench], _SECONDS_MAX)
        try:
            rows = [Row.parse(line) for line in text.splitlines() if line.strip()]
        except (ValueError, KeyError, TypeError) as error:
            raise ProcessError(f"tapedb bench topic prints a line that is no row: {error!r}") from error
        return [row for row in rows if row.case == case]

    def _knows(self) -> bool:
        asked = subprocess.run([self._tapedb, "bench", "topic", "--help"], capture_output=True)
        return asked.returncode == 0


def round_trips_ns(row: Row) -> tuple[float, float]:
    """Those in a row's machine line."""
    found = _ROUND_TRIPS.search(row.machine)
    if not found:
        raise ProcessError(f"no round trips in the machine line {row.machine!r}")
    return float(found[1]), float(found[2])
