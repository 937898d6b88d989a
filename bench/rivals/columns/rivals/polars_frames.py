"""What Polars' two formats share: sums by its own expressions, over a lazy scan."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from storage.sums import Sums, Texts

if TYPE_CHECKING:
    import polars as pl


def limit(threads: int) -> None:
    """Polars reads this when it is imported."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)


def summing(scan: "Callable[[], pl.LazyFrame]", texts: Texts) -> Callable[[], Sums]:
    """One query of all sums; a text counts as its place among the texts of its column."""
    import polars as pl

    def word(name: str, dtype: "pl.DataType") -> "pl.Expr":
        column = pl.col(name)
        if name in texts:
            places = {text: place for place, text in enumerate(texts[name])}
            column = column.cast(pl.String).replace_strict(places, return_dtype=pl.Int64)
        elif dtype.is_temporal():
            column = column.dt.epoch("ns")
        # Sums of bools and of small numbers are wider than they are.
        return column.cast(pl.Int64).sum().alias(name)

    def read() -> Sums:
        frame = scan()
        words = [word(name, dtype) for name, dtype in frame.collect_schema().items()]
        found = frame.select(pl.len().alias("rows of the frame"), *words).collect().row(0, named=True)
        rows = found.pop("rows of the frame")
        return Sums(rows, {name: int(total) for name, total in found.items()})

    return read


def batching(scan: "Callable[[], pl.LazyFrame]") -> Callable[[], pa.Table]:
    """All rows as an Arrow table, which shares the frame's memory."""
    return lambda: scan().collect().to_arrow()
