"""Records a market: a feed of trades and quotes goes into a durable stream, with a checkpoint each second.

    python recorder.py DATABASE [--seconds 10] [--rate 1000]

The feed is made up here; replace `feed` with that of a venue. Ctrl-C ends it, and nothing that was received is lost.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import tapedb
from tapedb.types import U32


@dataclass
class Trade:
    price: Decimal
    size: U32


@dataclass
class Quote:
    bid: Decimal
    ask: Decimal


def feed(rate: float) -> Iterator[tuple[str, int, Trade | Quote]]:
    """A random walk for each of three symbols."""
    ticks = {"AIG": 4835, "BAC": 3107, "C": 7012}
    while True:
        symbol = random.choice(list(ticks))
        ticks[symbol] += random.choice((-1, 0, 1))
        price = Decimal(ticks[symbol]) / 100
        is_trade = random.random() < 0.3
        record = Trade(price, random.randrange(1, 10) * 100) if is_trade else Quote(price - Decimal("0.01"), price + Decimal("0.01"))
        yield symbol, time.time_ns(), record
        time.sleep(1 / rate)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("database")
    arguments.add_argument("--seconds", type=float, default=10)
    arguments.add_argument("--rate", type=float, default=1000)
    wanted = arguments.parse_args()

    with tapedb.open(wanted.database) as db:
        stream = db.create("market", [Trade, Quote], exist_ok=True, durability="sync", keep_for="30d")
        begun = flushed = time.monotonic()
        with stream.loader() as load:
            try:
                for symbol, when, record in feed(wanted.rate):
                    load.append(symbol, when, record)
                    now = time.monotonic()
                    if now - flushed >= 1 or now - begun >= wanted.seconds:
                        # What is flushed is on the disk.
                        print(f"{load.flush():,} messages recorded")
                        flushed = now
                    if now - begun >= wanted.seconds:
                        break
            except KeyboardInterrupt:
                print("interrupted")


if __name__ == "__main__":
    main()
