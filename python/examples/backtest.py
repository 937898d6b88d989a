"""Runs one strategy on history and then live, without a gap in between.

    python backtest.py DATABASE [--seconds 10]

The strategy buys when the price is above its mean, and sells when it is below. It sees messages; it cannot tell history from live.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

import tapedb

SCHEMA = "message Tick { price: f64, size: u32 }"


@dataclass
class Strategy:
    """Positions and money by the last price against the mean of the last ones."""

    window: int = 50
    prices: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    position: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cash: float = 0.0
    orders: int = 0

    def on_message(self, m: tapedb.Message) -> None:
        prices = self.prices[m.symbol]
        prices.append(m.price)
        if len(prices) <= self.window:
            return
        prices.popleft()
        wanted = 1 if m.price > sum(prices) / len(prices) else -1
        change = wanted - self.position[m.symbol]
        if change:
            self.cash -= change * m.price
            self.position[m.symbol] = wanted
            self.orders += 1

    def value(self) -> float:
        return self.cash + sum(count * self.prices[symbol][-1] for symbol, count in self.position.items())


def prices(stream: tapedb.Stream, begin: int, count: int, pause: float = 0) -> None:
    """Ticks of two symbols that move in waves."""
    with stream.loader() as load:
        for i in range(begin, begin + count):
            load.append("AB"[i % 2], i * 1_000_000_000, price=100 + (i // 2 % 200) / 10, size=100)
            if pause:
                load.flush()
                time.sleep(pause)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("database")
    arguments.add_argument("--seconds", type=float, default=10)
    wanted = arguments.parse_args()

    with tapedb.open(wanted.database) as db:
        stream = db.create("backtest", SCHEMA, exist_ok=True)
        begin = stream.stats().next_sequence
        prices(stream, begin, 5_000)
        strategy = Strategy()
        cursor = stream.cursor(live=True)
        while not cursor.caught_up:
            for m in cursor.take(1_000):
                strategy.on_message(m)
        print(f"history: {cursor.count:,} messages, {strategy.orders} orders, value {strategy.value():.2f}")
        venue = threading.Thread(target=prices, args=(stream, begin + 5_000, 100, wanted.seconds / 200))
        venue.start()
        end = time.monotonic() + wanted.seconds
        while time.monotonic() < end:
            for m in cursor.take(1_000, timeout=0.1):
                strategy.on_message(m)
        venue.join()
        print(f"and live: {cursor.count:,} messages, {strategy.orders} orders, value {strategy.value():.2f}")


if __name__ == "__main__":
    main()
