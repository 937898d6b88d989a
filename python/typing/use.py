"""A program as people write it: type checkers must know what everything is."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

import tapedb
from tapedb.types import U32


@dataclass
class Tick:
    price: Decimal
    size: U32


def main(path: str) -> None:
    db: tapedb.Database = tapedb.open(path)
    ticks: tapedb.Stream = db.create("ticks", Tick, durability="sync")
    with ticks.loader() as load:
        load.append("AIG", "2026-01-05T14:30", price="48.35", size=100)
        load.append("AIG", datetime.datetime.now(datetime.timezone.utc), Tick(Decimal(1), 2))
        rows: int = load.append_table({"time": [1], "symbol": ["A"], "price": [1.5], "size": [1]})
    print(rows)
    for m in ticks.cursor(symbols=["AIG"], live=False):
        time: int = m.time
        symbol: str = m.symbol
        if isinstance(m, Tick):
            price: Decimal = m.price
            print(time, symbol, price, m["size"])
    position: str = ticks.cursor().position()
    ticks.cursor(resume=position, start=0, end="2027-01-01")
    columns = ticks.table("Tick", ["price"], decimals={"price": 4}).to_numpy()
    print(columns["price"].sum(), ticks.stats().messages)


async def follow(stream: tapedb.Stream) -> None:
    async for m in stream.cursor(live=True):
        print(m.datetime, m.symbol)


def errors(stream: tapedb.Stream) -> None:
    try:
        stream.loader().append("A", 1, price="x")
    except tapedb.SchemaMismatch as error:
        field: str | None = error.field
        row: int | None = error.row
        print(field, row)
