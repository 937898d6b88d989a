"""A Parquet file with zstd, read by pyarrow: summed up row group by row group, or as one table."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from storage.rivals.parquet_file import ParquetFile
from storage.sums import Sums, Texts


class PyarrowParquet:
    """See the module."""

    def __init__(self) -> None:
        self._file = ParquetFile()

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """One thread writes, whatever it is asked for: pyarrow has no parallel writer."""
        self._file.write(source, texts, path, threads)

    def summing(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """By pyarrow's kernels."""
        return self._file.reader(path, texts, threads)

    def batching(self, path: Path, texts: Texts, threads: int) -> Callable[[], pa.Table]:
        """A whole table."""
        pa.set_cpu_count(threads)
        return lambda: pq.read_table(path, memory_map=True, use_threads=threads > 1)


RIVAL = PyarrowParquet()
