"""The rivals, each in a file of its own, as its own users would hold it.

A worker process imports only the one it measures, so that no rival's thread pool stands in another's way.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ..sums import Sums, Texts


class Rival(Protocol):
    """One way to keep a table on disk."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """Writes the table to a new file, and closes it."""
        ...

    def reader(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """What reads the file, all of it with every call, and sums up every column."""
        ...


# Key in the names of cases, and title in the table.
TITLES = {
    "duckdb": "DuckDB table",
    "parquet": "Parquet, zstd (pyarrow)",
    "arrow": "Arrow IPC, mapped (pyarrow)",
    "vortex": "Vortex, default writer",
    "vortex-compact": "Vortex, compact writer",
}

_MODULES = {
    "duckdb": "duckdb_table",
    "parquet": "parquet_file",
    "arrow": "arrow_file",
    "vortex": "vortex_file",
    "vortex-compact": "vortex_compact_file",
}


def rival(key: str) -> Rival:
    """The rival of a key of `TITLES`."""
    module: Rival = import_module(f"{__name__}.{_MODULES[key]}").RIVAL
    return module
