"""The benchmarks run small, and check their output."""

import json
import pathlib
import subprocess
import sys

import pytest

CASES = {
    "python.arrow.time", "python.arrow.symbol", "python.polars", "python.pandas", "python.append_table", "python.append_table.remote",
    "python.messages.read", "python.messages.append", "python.first_row", "python.first_row.symbol", "python.interrupt",
    "python.interrupt.batches", "python.interrupt.stopped", "python.interrupt.lost",
}


def test_every_case_runs(tmp_path):
    for name in ("numpy", "polars", "pandas", "pyarrow", "duckdb"):
        pytest.importorskip(name)
    bench = pathlib.Path(__file__).parents[2] / "bench/python"
    command = [sys.executable, bench, "--rows", "20000", "--long", "50000", "--rounds", "2", "--json", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert CASES <= {row["case"] for row in found} and {"duckdb.arrow", "polars.scan_parquet"} <= {row["case"] for row in found}
    assert all(row["value"] > 0 for row in found if row["case"] != "python.memory.polars")
