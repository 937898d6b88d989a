"""The queries: TapeDB's text, and the tables that they read."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True)
class Query:
    """A case: its name is that of `tapedb bench sql`, and its text the one that runs there."""

    case: str
    tables: tuple[str, ...]
    text: str

    def of_hour(self, hour: "Hour") -> "Query":
        """The query about this hour, if it is about one."""
        return replace(self, text=self.text.format(**hour.texts())) if self.case == "hour" else self


@dataclass(frozen=True)
class Hour:
    """An hour of one symbol: nanoseconds since 1970, the last one excluded."""

    symbol: str
    start: int
    end: int

    def texts(self) -> dict[str, str]:
        """What stands in queries: the times as UTC, to the second."""
        return {"symbol": self.symbol, "start": _clock(self.start), "end": _clock(self.end)}


def _clock(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")


_ASOF = (
    "SELECT t.time, t.price, q.bid, q.ask FROM {trades} t "
    "ASOF JOIN {quotes} q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol"
)

QUERIES = [
    Query(
        "asof.real", ("trades_real", "quotes_real"), _ASOF.format(trades="trades_real", quotes="quotes_real")
    ),
    Query("asof.100", ("trades", "quotes"), _ASOF.format(trades="trades", quotes="quotes")),
    Query(
        "ohlcv",
        ("quotes",),
        "SELECT symbol, date_bin(INTERVAL '1 minute', time) AS minute, "
        "first_value(bid ORDER BY time) AS open, max(bid) AS high, "
        "min(bid) AS low, last_value(bid ORDER BY time) AS close, sum(bid_size) AS volume, "
        "sum(bid * bid_size) / sum(bid_size) AS vwap FROM quotes GROUP BY symbol, minute",
    ),
    Query(
        "last",
        ("quotes",),
        "SELECT DISTINCT ON (symbol) symbol, time, bid, ask FROM quotes ORDER BY symbol, time DESC",
    ),
    Query(
        "window",
        ("trades", "quotes"),
        "SELECT t.time, t.price, count(*) AS quotes, min(q.bid) AS bid, max(q.ask) AS ask, "
        "sum(q.bid_size) AS size FROM trades t WINDOW JOIN quotes q MATCH_CONDITION "
        "(q.time BETWEEN t.time - INTERVAL '1 second' AND t.time + INTERVAL '1 second') "
        "ON t.symbol = q.symbol",
    ),
    Query(
        "hour",
        ("history",),
        "SELECT time, open, high, low, close, volume FROM history "
        "WHERE symbol = '{symbol}' AND time >= '{start}Z' AND time < '{end}Z' ORDER BY time",
    ),
    Query("sum", ("bars",), "SELECT sum(open), sum(high), sum(low), sum(close), sum(volume) FROM bars"),
]

# What rivals get of each table: the same rows, with times of UTC.
COLUMNS = {
    "trades": "time, symbol, price, size",
    "quotes": "time, symbol, bid, ask, bid_size, ask_size",
    "trades_real": "time, symbol, price, size",
    "quotes_real": "time, symbol, bid, ask, bid_size, ask_size",
    "bars": "time, symbol, open, high, low, close, volume",
    "history": "time, symbol, open, high, low, close, volume",
}
