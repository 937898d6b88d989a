"""A library of ArcticDB on LMDB: one symbol, whose index is the time."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from storage.sums import Sums, Texts

_SYMBOL = "ticks"
_MAP_BYTES = 64 << 30


class ArcticDb:
    """See the module. Texts are stored as their places: ArcticDB has no dictionaries that last."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """As a pandas frame, which is made before it is stored, and belongs to the cost of its users."""
        frame = pa.table(
            {
                name: column.combine_chunks().indices if pa.types.is_dictionary(column.type) else column
                for name, column in zip(source.schema.names, source.columns, strict=True)
            }
        ).to_pandas()
        _library(path, threads).write(_SYMBOL, frame.set_index("time"), validate_index=True)

    def summing(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """Sums by pandas: ArcticDB's own aggregation groups by a column."""
        library = _library(path, threads)

        def read() -> Sums:
            frame = library.read(_SYMBOL).data
            columns = {name: int(frame[name].sum()) for name in frame.columns}
            times = frame.index.to_numpy().astype("datetime64[ns]").view("uint64")
            columns["time"] = int(times.sum(dtype="uint64"))
            return Sums(len(frame), columns)

        return read

    def batching(self, path: Path, texts: Texts, threads: int) -> Callable[[], pa.Table]:
        """A pandas frame, whose columns become an Arrow table."""
        library = _library(path, threads)
        return lambda: pa.Table.from_pandas(library.read(_SYMBOL).data, nthreads=threads)


RIVAL = ArcticDb()


def _library(path: Path, threads: int):  # noqa: ANN202
    from arcticdb import Arctic
    from arcticdb_ext import set_config_int

    set_config_int("VersionStore.NumCPUThreads", threads)
    set_config_int("VersionStore.NumIOThreads", threads)
    return Arctic(f"lmdb://{path}?map_size={_MAP_BYTES >> 30}GB").get_library("bench", create_if_missing=True)
