"""An Arrow IPC file (Feather 2), not compressed, so that columns are read where they are mapped.

One thread writes, whatever it is asked for. Threads read record batches, of 1,048,576 rows, in turns.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ..dataset import BATCH_ROWS
from ..sums import ArrowSums, Sums, Texts


class ArrowFile:
    """See the module."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """Writes with one thread."""
        with pa.ipc.new_file(path, source.schema) as writer:
            writer.write_table(source, max_chunksize=BATCH_ROWS)

    def reader(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """Batch by batch, mapped."""
        sums = ArrowSums(texts)
        return lambda: sums.of_parts([_Batches(path) for _ in range(threads)])


RIVAL = ArrowFile()


class _Batches:
    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))

    def parts(self) -> int:
        return self._file.num_record_batches

    def part(self, index: int) -> pa.RecordBatch:
        return self._file.get_batch(index)
