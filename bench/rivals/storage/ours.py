"""TapeDB's own figures: rows of `tapedb bench storage --json`, from a file or from a run."""

import os
import subprocess
from pathlib import Path

from common.report import Row

from .dataset import DataError

# A run of our own stays short, and has only what the tables show.
_MESSAGES_MAX = 10_000_000
_RUNS_MAX = 3
_GROUPS = "main,recorded"


def ours_from_file(path: Path) -> list[Row]:
    """Rows that were measured before."""
    return _rows(path.read_text(encoding="utf-8"), str(path))


def ours_from_run(tapedb: Path, rows: int, rounds: int, data: Path | None, folder: Path) -> list[Row]:
    """Rows measured now, with as many messages and runs as the rivals have, up to a limit."""
    db = folder / "ours.tapedb"
    sizes = ["--messages", str(min(rows, _MESSAGES_MAX)), "--runs", str(min(rounds, _RUNS_MAX))]
    command = [str(tapedb), "bench", "storage", "--json", "--only", _GROUPS, "--db", str(db), *sizes]
    if data:
        command += ["--data", str(data)]
    environment = {name: value for name, value in os.environ.items() if name != "TAPEDB_DATA"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise DataError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return _rows(done.stdout, "tapedb bench storage")


def _rows(text: str, origin: str) -> list[Row]:
    try:
        return [Row.parse(line) for line in text.splitlines() if line.strip()]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{origin} has a line that is no row of a benchmark: {error!r}") from error
