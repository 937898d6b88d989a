"""A Parquet file with zstd as pyarrow writes it when only `compression` is set; row groups of 1,048,576 rows.

One thread writes, whatever it is asked for: pyarrow has no parallel writer. Threads read row groups in turns.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..sums import ArrowSums, Sums, Texts


class ParquetFile:
    """See the module."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """Writes with one thread."""
        pq.write_table(source, path, compression="zstd")

    def reader(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """Row group by row group, mapped."""
        sums = ArrowSums(texts)
        return lambda: sums.of_parts([_RowGroups(path) for _ in range(threads)])


RIVAL = ParquetFile()


class _RowGroups:
    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path, memory_map=True)

    def parts(self) -> int:
        return self._file.num_row_groups

    def part(self, index: int) -> pa.Table:
        return self._file.read_row_group(index, use_threads=False)
