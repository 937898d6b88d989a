"""kola (Python, Polars) against a plant: subscribes, receives, publishes what it can. Arguments: port, rows."""

import sys
import time
from datetime import timedelta

import kola
import polars as pl

port, rows = int(sys.argv[1]), int(sys.argv[2])


def connect():
    client = kola.Q("127.0.0.1", port, "me", "secret")
    client.connect()
    return client


def frame(first, count):
    numbers = range(first, first + count)
    return pl.DataFrame(
        {
            "time": pl.Series([timedelta(microseconds=n) for n in numbers], dtype=pl.Duration("ns")),
            "sym": pl.Series([("AIG", "BAC")[n % 2] for n in numbers], dtype=pl.Categorical),
            "price": pl.Series([n / 4 for n in numbers], dtype=pl.Float64),
            "size": pl.Series(list(numbers), dtype=pl.Int64),
            "ex": pl.Series(["N" for _ in numbers], dtype=pl.Categorical),
        }
    )


def take(client, until):
    sizes = []
    while not sizes or sizes[-1] != until:
        _, table, update = client.receive()
        assert table == "trade", table
        sizes += update["size"].to_list()
    return sizes


feed, subscriber = connect(), connect()
assert feed.sync("1+1") == 2
name, empty = subscriber.sync(".u.sub", "trade", "")
assert (name, empty.columns) == ("trade", ["time", "sym", "price", "size", "ex"]), (name, empty)

row = frame(0, 1)
feed.sync(".u.upd", "trade", row)
feed.asyn("upd", "trade", frame(1, 3))
feed.sync(".u.upd", "trade", {"sym": "AIG", "price": 1.5, "size": 4, "ex": "N"})
assert take(subscriber, 4) == [0, 1, 2, 3, 4]

for first in range(5, rows, 1000):
    feed.asyn(".u.upd", "trade", frame(first, min(1000, rows - first)))
sizes = take(subscriber, rows - 1)
assert sizes == list(range(5, rows)), len(sizes)
assert feed.sync("count trade") == rows
try:
    feed.sync(".u.sub", "nosuch", "")
    raise SystemExit("an unknown table must be refused")
except kola.KolaError as error:
    assert "nosuch" in str(error), error
print("received", 5 + len(sizes))
