"""DuckDB with tables in a file of its own."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

from ..queries import Hour

_ASOF = (
    "SELECT t.time, t.price, q.bid, q.ask FROM {0} t ASOF LEFT JOIN {1} q "
    "ON t.symbol = q.symbol AND t.time >= q.time"
)

_TEXTS = {
    "ohlcv": "SELECT symbol, time_bucket(INTERVAL '1 minute', time) AS minute, "
    "first(bid ORDER BY time) AS open, max(bid) AS high, "
    "min(bid) AS low, last(bid ORDER BY time) AS close, sum(bid_size) AS volume, "
    "sum(bid * bid_size) / sum(bid_size) AS vwap "
    "FROM quotes GROUP BY symbol, minute",
    "last": "SELECT symbol, max(time) AS time, "
    "arg_max(bid, time) AS bid, arg_max(ask, time) AS ask FROM quotes GROUP BY symbol",
    "hour": "SELECT time, open, high, low, close, volume FROM history WHERE symbol = '{symbol}' "
    "AND time >= '{start}' AND time < '{end}' ORDER BY time",
    "sum": "SELECT sum(open), sum(high), sum(low), sum(close), sum(volume) FROM bars",
}


class DuckDb:
    """See the module."""

    def prepare(
        self, case: str, tables: dict[str, pa.Table], folder: Path, threads: int, hour: Hour
    ) -> Callable[[], pa.Table]:
        """Tables that are written and opened again."""
        path = str(folder / "duckdb")
        with duckdb.connect(path, config={"threads": threads}) as connection:
            for name, table in tables.items():
                connection.register("source", table)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
                connection.unregister("source")
        opened = duckdb.connect(path, config={"threads": threads})
        opened.execute("SET TimeZone = 'UTC'")
        text = _TEXTS.get(case, _ASOF).format(*tables, **hour.texts())
        return lambda: opened.execute(text).to_arrow_table()


RIVAL = DuckDb()
