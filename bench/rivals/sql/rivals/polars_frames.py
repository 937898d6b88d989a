"""Polars with frames in memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ..queries import Hour


class Polars:
    """See the module."""

    def prepare(
        self, case: str, tables: dict[str, pa.Table], folder: Path, threads: int, hour: Hour
    ) -> Callable[[], pa.Table]:
        """Frames whose symbols are categories, sorted by time."""
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars as pl

        frames = {
            name: pl.DataFrame(table).with_columns(pl.col("symbol").cast(pl.Categorical))
            for name, table in tables.items()
        }
        lazy = [frame.with_columns(pl.col("time").set_sorted()).lazy() for frame in frames.values()]
        start, end = (pl.lit(ns).cast(pl.Datetime("ns")) for ns in (hour.start, hour.end))
        bid, size = pl.col("bid"), pl.col("bid_size")
        plans = {
            "ohlcv": lambda: (
                lazy[0]
                .group_by("symbol", pl.col("time").dt.truncate("1m").alias("minute"))
                .agg(
                    open=bid.first(),
                    high=bid.max(),
                    low=bid.min(),
                    close=bid.last(),
                    volume=size.sum(),
                    vwap=(bid * size).sum() / size.sum(),
                )
            ),
            "last": lambda: lazy[0].group_by("symbol").agg(pl.col("time", "bid", "ask").last()),
            "hour": lambda: (
                lazy[0]
                .filter(
                    pl.col("time").is_between(start, end, closed="left") & (pl.col("symbol") == hour.symbol)
                )
                .select("time", "open", "high", "low", "close", "volume")
            ),
            "sum": lambda: lazy[0].select(pl.col("open", "high", "low", "close", "volume").sum()),
        }

        def asof() -> pl.LazyFrame:
            joined = lazy[0].join_asof(lazy[1], on="time", by="symbol")
            return joined.select("time", "price", "bid", "ask")

        plan = plans.get(case, asof)
        return lambda: plan().collect().to_arrow()


RIVAL = Polars()
