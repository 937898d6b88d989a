"""chDB: ClickHouse in the process, with tables of its own engine on disk."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from chdb.session import Session

from ..queries import Hour

_ASOF = (
    "SELECT t.time, t.price, q.bid, q.ask FROM {0} t ASOF LEFT JOIN {1} q "
    "ON t.symbol = q.symbol AND t.time >= q.time SETTINGS join_use_nulls = 1"
)

_TEXTS = {
    "ohlcv": "SELECT symbol, toDateTime64(toStartOfMinute(time), 9) AS minute, "
    "argMin(bid, time) AS open, max(bid) AS high, min(bid) AS low, "
    "argMax(bid, time) AS close, sum(bid_size) AS volume, "
    "sum(bid * bid_size) / sum(bid_size) AS vwap FROM quotes GROUP BY symbol, minute",
    "last": "SELECT symbol, max(quotes.time) AS time, argMax(bid, quotes.time) AS bid, "
    "argMax(ask, quotes.time) AS ask FROM quotes GROUP BY symbol",
    "hour": "SELECT time, open, high, low, close, volume FROM history WHERE symbol = '{symbol}' "
    "AND time >= '{start}' AND time < '{end}' ORDER BY time",
    "sum": "SELECT sum(open), sum(high), sum(low), sum(close), sum(volume) FROM bars",
}


class ChDb:
    """See the module."""

    def prepare(
        self, case: str, tables: dict[str, pa.Table], folder: Path, threads: int, hour: Hour
    ) -> Callable[[], pa.Table]:
        """Tables in the order of symbol and time."""
        session = Session(str(folder / "chdb"))
        session.query("CREATE DATABASE IF NOT EXISTS d ENGINE = Atomic")
        session.query("USE d")
        for name, table in tables.items():
            path = folder / f"{name}.arrow"
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
            session.query(
                f"CREATE TABLE {name} ENGINE = MergeTree ORDER BY (symbol, time) "
                "SETTINGS allow_nullable_key = 1 "
                f"AS SELECT * FROM file('{path}', 'Arrow')"
            )
        text = _TEXTS.get(case, _ASOF).format(*tables, **hour.texts())
        if "SETTINGS" not in text:
            text += " SETTINGS"
        else:
            text += ","
        text += f" max_threads = {threads}"

        def run() -> pa.Table:
            return pa.ipc.open_file(pa.BufferReader(session.query(text, "Arrow").bytes())).read_all()

        return run


RIVAL = ChDb()
