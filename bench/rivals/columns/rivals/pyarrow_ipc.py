"""An Arrow IPC file, mapped: nothing is decoded, and a table is the mapped file, copied to be in memory of its own."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from storage.rivals.arrow_file import RIVAL as ARROW_FILE
from storage.sums import Sums, Texts


class PyarrowIpc:
    """See the module."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """As in the benchmark of storage."""
        ARROW_FILE.write(source, texts, path, threads)

    def summing(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """By pyarrow's kernels."""
        return ARROW_FILE.reader(path, texts, threads)

    def batching(self, path: Path, texts: Texts, threads: int) -> Callable[[], pa.Table]:
        """Read, not mapped: a map alone touches no row."""
        return lambda: pa.ipc.open_file(pa.OSFile(str(path))).read_all()


RIVAL = PyarrowIpc()
