"""TapeDB's own figures, measured in the same rounds by `tapedb bench`, as far as this `tapedb` can."""

import subprocess
from pathlib import Path

from common.process import ProcessError, output
from common.report import Row

# What is run in each round, and the cases that stand in the table's columns.
_BENCHES = (
    ("live", "--pairs", "1,4", "--transport", "tcp", "--content", "bars", "--runs", "1"),
    ("latency", "--mode", "stream", "--transport", "tcp", "--connections", "1", "--runs", "1"),
)
TITLE = "**TapeDB**"
# For `--only`.
KEY = "tapedb"
# Our cases by the names that rivals' have behind their own.
CASES = {"live.1": "live.pairs.1", "live.4": "live.pairs.4", "latency": "latency.stream.tcp"}
_SECONDS_MAX = 600


class Ours:
    """The benchmarks of one `tapedb`; none if there is no such file."""

    def __init__(self, tapedb: Path) -> None:
        self._tapedb = tapedb
        self._benches = [bench for bench in _BENCHES if self._knows(bench[0])]

    def missing(self) -> str | None:
        """What is left out, and why."""
        if not self._tapedb.exists():
            return f"TapeDB left out: {self._tapedb} is not there; name it with --tapedb"
        left_out = [bench[0] for bench in _BENCHES if bench not in self._benches]
        return f"TapeDB left out: no `tapedb bench {'`, `'.join(left_out)}`" if left_out else None

    def benches(self) -> list[str]:
        """The benchmarks that this `tapedb` has."""
        return [bench[0] for bench in self._benches]

    def measure(self) -> list[Row]:
        """One run of each."""
        return [row for bench in self._benches for row in self._rows(bench)]

    def _rows(self, bench: tuple[str, ...]) -> list[Row]:
        text = output([str(self._tapedb), "bench", *bench, "--json"], _SECONDS_MAX)
        try:
            return [Row.parse(line) for line in text.splitlines() if line.strip()]
        except (ValueError, KeyError, TypeError) as error:
            raise ProcessError(
                f"tapedb bench {bench[0]} prints a line that is no row of a benchmark: {error!r}"
            ) from error

    def _knows(self, bench: str) -> bool:
        if not self._tapedb.exists():
            return False
        asked = subprocess.run([self._tapedb, "bench", bench, "--help"], capture_output=True)
        return asked.returncode == 0
