"""Rebuilds an order book from changes, and shows it.

    python books.py DATABASE

Changes of levels are recorded as packages with entries, read back with `match`, and applied to a book for each symbol.
"""

from __future__ import annotations

import enum
import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal

import tapedb


class Side(enum.Enum):
    BID = 0
    ASK = 1


@dataclass
class Level:
    """A level's new size; 0 removes it."""

    side: Side
    price: Decimal
    size: int


@dataclass
class Clear:
    """The book begins again."""

    reason: str


@dataclass
class Book:
    """What one packet of the venue said."""

    entries: list[Level | Clear]


def record(stream: tapedb.Stream) -> None:
    """A book of ten levels that changes at random."""
    random.seed(1)
    with stream.loader() as load:
        load.append("AIG", 0, Book([Clear("open")]))
        for time in range(1, 2_000):
            depth = random.randrange(1, 11)
            side = random.choice(list(Side))
            price = Decimal(4835 - depth if side is Side.BID else 4835 + depth) / 100
            load.append("AIG", time, Book([Level(side, price, random.randrange(0, 20) * 100)]))


def main() -> None:
    with tapedb.open(sys.argv[1]) as db:
        stream = db.create("books", Book, exist_ok=True)
        if not stream.stats().messages:
            record(stream)
        books: dict[str, dict[Side, dict[Decimal, int]]] = defaultdict(lambda: {side: {} for side in Side})
        for m in stream.cursor():
            book = books[m.symbol]
            for entry in m.entries:
                match entry:
                    case Clear():
                        for side in Side:
                            book[side].clear()
                    case Level(side, price, 0):
                        book[side].pop(price, None)
                    case Level(side, price, size):
                        book[side][price] = size
        for symbol, book in books.items():
            bids = sorted(book[Side.BID].items(), reverse=True)[:5]
            asks = sorted(book[Side.ASK].items())[:5]
            print(symbol)
            for price, size in reversed(asks):
                print(f"{'':>12} {price:>8} {size:>8}")
            for price, size in bids:
                print(f"{size:>12} {price:>8}")
            print(f"mid {(bids[0][0] + asks[0][0]) / 2}")


if __name__ == "__main__":
    main()
