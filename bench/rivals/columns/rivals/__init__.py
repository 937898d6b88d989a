"""The rivals, each in a file of its own, as its own users would hold it.

A worker process imports only the one it measures, so that no rival's thread pool stands in another's way.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from storage.sums import Sums, Texts


class Rival(Protocol):
    """One way to keep a table on disk, and to get its columns."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """Writes the table to a new file or folder, and closes it."""
        ...

    def summing(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """What reads all of it with every call, and sums up every column."""
        ...

    def batching(self, path: Path, texts: Texts, threads: int) -> Callable[[], pa.Table]:
        """What gives all of it as an Arrow table with every call, in memory of its own."""
        ...


# Key in the names of cases, and title in the table.
TITLES = {
    "duckdb": "DuckDB table",
    "polars-parquet": "Polars, Parquet",
    "polars-ipc": "Polars, Arrow IPC",
    "pyarrow-parquet": "pyarrow, Parquet with zstd",
    "pyarrow-ipc": "pyarrow, Arrow IPC mapped",
    "arcticdb": "ArcticDB, LMDB",
}

_MODULES = {
    "duckdb": "duckdb_table",
    "polars-parquet": "polars_parquet",
    "polars-ipc": "polars_ipc",
    "pyarrow-parquet": "pyarrow_parquet",
    "pyarrow-ipc": "pyarrow_ipc",
    "arcticdb": "arctic_db",
}


def rival(key: str) -> Rival:
    """The rival of a key of `TITLES`."""
    module: Rival = import_module(f"{__name__}.{_MODULES[key]}").RIVAL
    return module
