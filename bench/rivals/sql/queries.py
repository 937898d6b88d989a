"""The queries: TapeDB's text, and the tables that they read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A case: its name is that of `tapedb bench sql`, and its text the one that runs there."""

    case: str
    tables: tuple[str, ...]
    text: str


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
    Query("sum", ("bars",), "SELECT sum(open), sum(high), sum(low), sum(close), sum(volume) FROM bars"),
]

# What rivals get of each table: the same rows, with times of UTC.
COLUMNS = {
    "trades": "time, symbol, price, size",
    "quotes": "time, symbol, bid, ask, bid_size, ask_size",
    "trades_real": "time, symbol, price, size",
    "quotes_real": "time, symbol, bid, ask, bid_size, ask_size",
    "bars": "time, symbol, open, high, low, close, volume",
}
