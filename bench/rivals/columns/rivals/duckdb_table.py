"""A table of DuckDB, of one thread or of several; sums by SQL, tables by its `arrow()`."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
from storage.rivals.duckdb_table import DuckDbTable
from storage.sums import Sums, Texts


class DuckDb:
    """See the module."""

    def __init__(self) -> None:
        self._table = DuckDbTable()

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """As in the benchmark of storage."""
        self._table.write(source, texts, path, threads)

    def summing(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """One query of all sums."""
        return self._table.reader(path, texts, threads)

    def batching(self, path: Path, texts: Texts, threads: int) -> Callable[[], pa.Table]:
        """All rows as an Arrow table."""
        connection = duckdb.connect(str(path), config={"threads": threads})
        return lambda: connection.execute("SELECT * FROM ticks").to_arrow_table()


RIVAL = DuckDb()
