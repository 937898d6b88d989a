"""A Parquet file as Polars writes it by default (zstd), scanned by Polars."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from storage.sums import Sums, Texts

from . import polars_frames


class PolarsParquet:
    """See the module."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """The frame of the table is made before; it is not measured apart."""
        polars_frames.limit(threads)
        import polars as pl

        pl.from_arrow(source).write_parquet(path)

    def summing(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """A lazy scan."""
        polars_frames.limit(threads)
        import polars as pl

        return polars_frames.summing(lambda: pl.scan_parquet(path), texts)

    def batching(self, path: Path, texts: Texts, threads: int) -> Callable[[], pa.Table]:
        """A whole frame."""
        polars_frames.limit(threads)
        import polars as pl

        return polars_frames.batching(lambda: pl.scan_parquet(path))


RIVAL = PolarsParquet()
