"""Stored books: TapeDB beside tickvault, whose archives are Parquet files. Both get the same changes."""

import argparse
import gzip
import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import tickvault

from common.command import add_options, run
from common.machine import Machine
from common.report import Report

T = TypeVar("T")
_BEGIN_NS = 1_787_616_000_000_000_000
_SPAN_NS = 40_000 * 1_000_000_000
_MIDDLE = 6_000_000
# Messages between two snapshots, and between two checkpoints of TapeDB.
_EVERY = 100_000


class DifferentError(Exception):
    """The two do not give the same book."""


class Message(NamedTuple):
    """A snapshot, or a change of one level; prices in cents, sizes in thousandths, 0 for one that is gone."""

    number: int
    time: int
    is_snapshot: bool
    levels: list[tuple[int, int, int]]


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    parser = argparse.ArgumentParser(prog="bench/rivals/run market --archive", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--books", type=int, default=40, help="times of which each gives the book")
    parser.add_argument("--rounds", type=int, default=5)
    add_options(parser)
    run(parser.parse_args(), _run, DifferentError, subprocess.CalledProcessError)


def _run(args: argparse.Namespace, folder: Path) -> None:
    messages = list(_messages(args.messages))
    archive = _write_archive(messages, folder / "archive")
    ours = _Ours(args.tapedb, messages, folder)
    machine, report = Machine(), Report("rivals.market")
    at = [random.Random(1).randrange(messages[0].time, messages[-1].time) for _ in range(args.books)]
    for _ in range(args.rounds):
        theirs, seconds = _timed(lambda: [archive.book_at("binance-us", "BTC-USDT", when) for when in at])
        report.add("book_at.tickvault", "time", "ms", seconds * 1e3 / len(at))
        books, seconds = ours.books(at)
        report.add("book_at.tapedb", "time", "ms", seconds * 1e3 / len(at))
        for when, book, their in zip(at, books, theirs, strict=True):
            if book != (their.best_bid, their.best_ask):
                raise DifferentError(f"at {when}: {book} and {their.best_bid, their.best_ask}")
        _, seconds = _timed(lambda: archive.bars("binance-us", "BTC-USDT", bar_seconds=60, frame="arrow"))
        report.add("bars.tickvault", "rate", "messages/s", len(messages) / seconds)
        _, seconds = _timed(ours.bars)
        report.add("bars.tapedb", "rate", "messages/s", len(messages) / seconds)
    stored = sum(path.stat().st_size for path in (folder / "archive").rglob("*.parquet"))
    report.add("size.tickvault", "size", "bytes/message", stored / len(messages))
    report.add("size.tapedb", "size", "bytes/message", ours.bytes / len(messages))
    for row in report.rows(machine.line()):
        if args.json:
            print(row.json())
        else:
            figures = f"{row.value:14,.2f} {row.unit}  ({row.min:,.2f} … {row.max:,.2f})"
            print(f"{row.case:20} {row.metric:5} {figures}")


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    done = work()
    return done, time.perf_counter() - started


def _messages(count: int) -> Iterator[Message]:
    source, book = random.Random(7), ({}, {})
    for number in range(1, count + 1):
        when = _BEGIN_NS + number * (_SPAN_NS // count)
        if (number - 1) % _EVERY == 0:
            for away in range(1, 201):
                book[0].setdefault(_MIDDLE - away, 1_000)
                book[1].setdefault(_MIDDLE + away, 1_000)
            levels = [(side, price, size) for side in (0, 1) for price, size in book[side].items()]
            yield Message(number, when, True, levels)
            continue
        side, size = source.randrange(2), source.randrange(4) * source.randrange(1, 5_000)
        price = _MIDDLE + (1 if side else -1) * source.randrange(1, 400)
        if size:
            book[side][price] = size
        else:
            book[side].pop(price, None)
        yield Message(number, when, False, [(side, price, size)])


def _write_archive(messages: list[Message], folder: Path) -> tickvault.Archive:
    """An archive of tickvault's docs/schema.md: a row for each level."""
    inner = Path("venue=binance-us/symbol=BTC-USDT/date=2026-08-25") / f"part-{_BEGIN_NS}-0000.parquet"
    rows = [(message, level) for message in messages for level in message.levels]
    count, wall = len(rows), pa.timestamp("ns", tz="UTC")

    def column(of: Callable[[Message, tuple[int, int, int]], int | None], kind: pa.DataType) -> pa.Array:
        return pa.array([of(message, level) for message, level in rows], kind)

    times = column(lambda message, _: message.time, pa.int64())
    table = pa.table(
        {
            "venue": pa.array(["binance-us"] * count),
            "symbol": pa.array(["BTC-USDT"] * count),
            "event": column(lambda message, _: 0 if message.is_snapshot else 1, pa.uint8()),
            "msg_index": column(lambda message, _: message.number, pa.uint64()),
            "recv_mono": column(lambda message, _: message.time - _BEGIN_NS, pa.uint64()),
            "recv_wall": times.cast(wall),
            "venue_ts": times.cast(wall),
            "skew_ns": pa.array([0] * count, pa.int64()),
            "side": column(lambda _, level: level[0], pa.uint8()),
            "price": column(lambda _, level: level[1] * 10**7, pa.int64()),
            "qty": column(lambda _, level: level[2] * 10**6, pa.int64()),
            "seq": column(lambda message, _: message.number, pa.uint64()),
            "first_seq": column(lambda message, _: message.number, pa.uint64()),
            "prev_seq": pa.nulls(count, pa.uint64()),
            "checksum": pa.nulls(count, pa.uint32()),
            "suspect": pa.array([False] * count),
            "book_level": pa.array([2] * count, pa.uint8()),
            "order_id": pa.nulls(count, pa.string()),
            "action": pa.nulls(count, pa.string()),
            "queue_index": pa.nulls(count, pa.uint32()),
            "queue_qty_ahead": pa.nulls(count, pa.int64()),
            "queue_certainty": pa.nulls(count, pa.string()),
            "size_change_explained": pa.nulls(count, pa.bool_()),
            "traded_qty": pa.nulls(count, pa.int64()),
        }
    ).replace_schema_metadata({"tickvault.price_scale": "9"})
    (folder / inner).parent.mkdir(parents=True)
    pq.write_table(table, folder / inner, compression="zstd")
    last = messages[-1].time
    entry = {"kind": "file", "path": str(inner), "venue": "binance-us", "symbol": "BTC-USDT"}
    entry |= {"date": "2026-08-25"}
    entry |= {"book_level": "l2", "feed_depth": None, "rows": count, "bytes": (folder / inner).stat().st_size}
    entry |= {"first_recv_wall": messages[0].time, "last_recv_wall": last, "closed_wall": last}
    (folder / "_manifest.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    return tickvault.open(folder)


class _Ours:
    """The same messages as a capture of Binance, imported, sealed, with checkpoints."""

    def __init__(self, tapedb: Path, messages: list[Message], folder: Path) -> None:
        self._tapedb, self._db = tapedb, folder / "ours.tape"
        capture = folder / "spot-btcusdt_20260825.gz"
        with gzip.open(capture, "wt", compresslevel=1, encoding="utf-8") as file:
            for message in messages:
                file.write(f"{message.time} {_frame(message)}\n")
        self._call("import", "--create", "--stream", "s", "--format", "binance-raw-ws", str(capture))
        self._call("seal", "s")
        self.bytes = json.loads(self._call("streams", "--json").splitlines()[0])["bytes"]
        self._call("book", "s", "--checkpoint", "--every", str(_EVERY))

    def books(self, at: list[int]) -> tuple[list[tuple[tuple[float, float], tuple[float, float]]], float]:
        """Best bid and ask at these times, and how long it took: a shell with all less an idle one."""
        _, idle = _timed(lambda: self._shell([]))
        text, seconds = _timed(lambda: self._shell(at))
        found = [json.loads(line) for line in text.splitlines()]

        def best(book: dict[str, dict[str, str]], side: str) -> tuple[float, float]:
            return float(book[side]["price"]), float(book[side]["size"])

        return [(best(book, "best_bid"), best(book, "best_ask")) for book in found], seconds - idle

    def bars(self) -> None:
        """Bars of the middle of the best prices, which takes the book through all messages."""
        self._call("bars", "s", "--every", "1m", "--quotes", "--print", "--json")

    def _shell(self, at: list[int]) -> str:
        script = "open\n" + "".join(f"book s BTCUSDT --depth 1 --json --at {when}\n" for when in at)
        command = [str(self._tapedb), "shell", "--json", "--db", str(self._db)]
        return subprocess.run(command, input=script, capture_output=True, check=True, text=True).stdout

    def _call(self, name: str, *rest: str) -> str:
        command = [str(self._tapedb), name, "--db", str(self._db), *rest]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _frame(message: Message) -> str:
    sides: tuple[list[list[str]], list[list[str]]] = ([], [])
    for side, price, size in message.levels:
        sides[side].append([f"{price // 100}.{price % 100:02}", f"{size / 1000:.3f}"])
    if message.is_snapshot:
        return json.dumps({"lastUpdateId": message.number, "bids": sides[0], "asks": sides[1]})
    number, milliseconds = message.number, message.time // 10**6
    data = {"e": "depthUpdate", "E": milliseconds, "s": "BTCUSDT", "U": number, "u": number}
    data |= {"b": sides[0], "a": sides[1]}
    return json.dumps({"stream": "btcusdt@depth", "data": data}, separators=(",", ":"))
