"""pandas with frames in memory."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from ..queries import Hour


class Pandas:
    """See the module."""

    def prepare(
        self, case: str, tables: dict[str, pa.Table], folder: Path, threads: int, hour: Hour
    ) -> Callable[[], pa.Table]:
        """Frames whose symbols are categories, the same ones in all frames."""
        frames = [table.to_pandas() for table in tables.values()]
        names = sorted(set().union(*(frame["symbol"].unique() for frame in frames)))
        for frame in frames:
            frame["symbol"] = pd.Categorical(frame["symbol"], categories=names)
        self._wanted = hour
        runs = {"ohlcv": self._ohlcv, "last": self._last, "hour": self._hour}
        run = runs.get(case, self._asof)
        return lambda: pa.Table.from_pandas(run(*frames), preserve_index=False)

    def _asof(self, trades: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
        found = pd.merge_asof(trades, quotes[["time", "symbol", "bid", "ask"]], on="time", by="symbol")
        return found[["time", "price", "bid", "ask"]]

    def _ohlcv(self, quotes: pd.DataFrame) -> pd.DataFrame:
        turnover = quotes["bid"] * quotes["bid_size"]
        groups = quotes.assign(turnover=turnover).groupby(
            ["symbol", quotes["time"].dt.floor("min")], observed=True
        )
        found = groups.agg(
            open=("bid", "first"),
            high=("bid", "max"),
            low=("bid", "min"),
            close=("bid", "last"),
            volume=("bid_size", "sum"),
            vwap=("turnover", "sum"),
        ).reset_index()
        found["vwap"] /= found["volume"]
        return found

    def _last(self, quotes: pd.DataFrame) -> pd.DataFrame:
        return quotes.groupby("symbol", observed=True)[["time", "bid", "ask"]].last().reset_index()

    def _hour(self, history: pd.DataFrame) -> pd.DataFrame:
        """Frames are in the order of time."""
        start, end = (pd.Timestamp(ns) for ns in (self._wanted.start, self._wanted.end))
        first, last = history["time"].searchsorted([start, end])
        part = history.iloc[first:last]
        found = part[part["symbol"] == self._wanted.symbol]
        return found[["time", "open", "high", "low", "close", "volume"]]


RIVAL = Pandas()
