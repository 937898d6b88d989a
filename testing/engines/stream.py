"""The stream that is published: awkward values in known places, and what TapeDB reads of it."""

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

SCHEMA = """
enum Side { BUY = 1, SELL = 2 }
record Level { price: decimal64, size: u64 }
message Tick {
    price: decimal64, size: u64, delta: i8, count: u32, ratio: f64?, at: timestamp?, side: Side?, note: string?,
    levels: array<record<Level>>
}
"""
DAY = 86_400_000_000_000
FIRST = 19_724  # 2024-01-02
SYMBOLS = 500
DAYS = 3


@dataclass
class Answer:
    """What every engine has to find."""

    count: int = 0
    price: Decimal = Decimal(0)
    size: int = 0
    delta: int = 0
    symbols: set = field(default_factory=set)
    first: int = 2**63
    last: int = -(2**63)
    null_notes: int = 0
    levels: int = 0
    level_sizes: int = 0
    at: int = 0
    sells: int = 0
    by_day: Counter = field(default_factory=Counter)

    def values(self) -> dict:
        """As the engines return it."""
        names = ["count", "price", "size", "delta", "first", "last", "null_notes", "levels", "level_sizes", "at", "sells"]
        return {name: getattr(self, name) for name in names} | {"symbols": len(self.symbols)}


class Stream:
    """A database with a stream, and the command that works on it."""

    def __init__(self, tapedb: Path, folder: Path) -> None:
        self.tapedb = tapedb
        self.db = folder / "db"
        schema = folder / "schema"
        schema.write_text(SCHEMA)
        subprocess.run([tapedb, "create", "--db", self.db, "--schema", schema, "ticks"], check=True, capture_output=True)
        self.random = random.Random(7)

    def run(self, *words: str) -> list[dict]:
        """Runs the command; returns the objects that it prints."""
        done = subprocess.run([self.tapedb, *words, "--db", self.db, "--json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"tapedb {' '.join(map(str, words))}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines() if line]

    def add(self, day: int, rows: int) -> None:
        """Adds rows of a day, and seals them."""
        symbols = [f"S{number:04}" for number in range(SYMBOLS)] + ["Ünïcode", "'quoted'", "Z" * 100]
        lines = []
        for row in range(rows):
            time = (FIRST + day) * DAY + row * (DAY // rows) + row % 999
            if day == 0 and row == 0:
                time = -1
            chosen = symbols[self.random.randrange(len(symbols))]
            levels = [{"price": f"{n}.5", "size": n + 1} for n in range(row % 4)]
            tick = {
                "symbol": chosen,
                "timestamp": time,
                "price": f"{self.random.randrange(-10**9, 10**9) / 10**4:.4f}",
                "size": 2**64 - 1 if row % 1000 == 1 else row,
                "delta": row % 256 - 128,
                "count": 2**32 - 1 - row,
                "ratio": None if row % 5 == 0 else row / 7,
                "at": None if row % 3 == 0 else time + 1,
                "side": [None, "BUY", "SELL"][row % 3],
                "note": None if row % 2 else f"ü{row}",
                "levels": levels,
            }
            lines.append(json.dumps(tick, ensure_ascii=False))
        text = "\n".join(lines).encode()
        subprocess.run([self.tapedb, "load", "--db", self.db, "--time-unit", "ns", "ticks"], input=text, check=True, capture_output=True)
        self.run("seal", "ticks")

    def answer(self) -> Answer:
        """Reads all, as TapeDB does."""
        answer = Answer()
        reading = subprocess.Popen([self.tapedb, "read", "--db", self.db, "ticks", "--json"], stdout=subprocess.PIPE)
        assert reading.stdout is not None
        for line in reading.stdout:
            tick = json.loads(line)
            time = nanos(tick["timestamp"])
            answer.count += 1
            answer.price += Decimal(str(tick["price"]))
            answer.size += int(tick["size"])
            answer.delta += tick["delta"]
            answer.symbols.add(tick["symbol"])
            answer.first, answer.last = min(answer.first, time), max(answer.last, time)
            answer.null_notes += tick.get("note") is None
            answer.levels += len(tick["levels"])
            answer.level_sizes += sum(int(level["size"]) for level in tick["levels"])
            answer.at += nanos(tick["at"]) if tick.get("at") is not None else 0
            answer.sells += tick.get("side") == "SELL"
            answer.by_day[time // DAY, tick["symbol"]] += 1
        assert reading.wait() == 0
        return answer


def nanos(text: str) -> int:
    """A time with up to nine digits of its second."""
    whole, _, rest = text.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp())
    return seconds * 10**9 + int(rest.ljust(9, "0") or 0)


def day_text(day: int) -> str:
    """A day since 1970 as a date."""
    return date.fromordinal(date(1970, 1, 1).toordinal() + day).isoformat()
