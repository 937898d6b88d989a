"""TapeDB's own figures: rows of `tapedb bench columns --json`, one run of it in each round of the rivals."""

import os
import subprocess
from pathlib import Path

from common.report import Report, Row
from storage.dataset import DataError


def measure(tapedb: Path, rows: int, data: Path | None, folder: Path, report: Report) -> None:
    """Runs all cases that stand in the tables once, and adds them to the report."""
    db = folder / "ours.tapedb"
    command = [str(tapedb), "bench", "columns", "--json", "--runs", "1", "--db", str(db)]
    command += ["--messages", str(rows), "--only", "bars,quotes" if data else "bars"]
    if data:
        command += ["--data", str(data)]
    environment = {name: value for name, value in os.environ.items() if name != "TAPEDB_DATA"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise DataError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    for row in map(Row.parse, filter(str.strip, done.stdout.splitlines())):
        report.add(row.case, row.metric, row.unit, row.value)
