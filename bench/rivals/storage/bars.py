"""Bars as TapeDB's own benchmark generates them, out of `tapedb` as CSV."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from .dataset import DataError, Dataset, write_dataset
from .schema import BARS, with_codes
from .text_sums import TextSums

SYMBOLS = 10
_BLOCK_BYTES = 1 << 26
_HEADER = b"time,symbol,type,open,high,low,close,volume\n"
_PRICES = ("open", "high", "low", "close")
_PRICE = pa.decimal128(18, 2)
_TYPES = {
    "time": pa.timestamp("ns", "UTC"),
    "symbol": pa.string(),
    "type": pa.string(),
    **dict.fromkeys(_PRICES, _PRICE),
    "volume": pa.int64(),
}


def bars(tapedb: Path, rows: int, folder: Path) -> Dataset:
    """Generates so many one-minute bars of ten symbols interleaved, and takes them out of the database."""
    db = folder / "bars.tapedb"
    _run(
        tapedb,
        "generate",
        "--db",
        db,
        "--create",
        "--stream",
        "bars",
        "--kind",
        "bars",
        "--contracts",
        SYMBOLS,
        "--messages",
        rows,
    )
    text = _text_sums()
    table = with_codes(pa.concat_tables(_tables(tapedb, db, text)), BARS)
    _check_count(tapedb, db, text)
    shutil.rmtree(db)
    return write_dataset("bars", table, text, folder)


def _tables(tapedb: Path, db: Path, text: TextSums) -> Iterator[pa.Table]:
    command = [tapedb, "read", "--db", db, "bars", "--output", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        header = reader.stdout.readline()
        if header != _HEADER:
            raise DataError(
                f"tapedb read prints the columns {header!r} for bars, not {_HEADER!r}: adapt bars.py"
            )
        for block in _blocks(reader.stdout):
            text.add(block)
            yield _parsed(block)
    if reader.returncode:
        raise DataError(f"tapedb read failed with exit code {reader.returncode}")


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Whole lines at a time."""
    rest = b""
    while block := stream.read(_BLOCK_BYTES):
        whole, newline, tail = (rest + block).rpartition(b"\n")
        yield whole + newline
        rest = tail
    if rest:
        raise DataError("tapedb read ended in the middle of a line")


def _parsed(block: bytes) -> pa.Table:
    read = pyarrow.csv.ReadOptions(column_names=list(_TYPES))
    convert = pyarrow.csv.ConvertOptions(column_types=_TYPES)
    table = pyarrow.csv.read_csv(pa.BufferReader(block), read_options=read, convert_options=convert)
    columns = {name: table[name] for name in BARS.names}
    columns["time"] = columns["time"].cast(pa.timestamp("ns"))
    for name in _PRICES:
        columns[name] = pc.multiply(columns[name], pa.scalar(Decimal(100))).cast(pa.int64())
    return pa.table(columns)


def _text_sums() -> TextSums:
    prices = [(name, 3 + at, _cents) for at, name in enumerate(_PRICES)]
    return TextSums([("time", 0, _nanoseconds), ("symbol", 1, None), *prices, ("volume", 7, int)])


def _cents(text: str) -> int:
    """`286.08` as 28608."""
    cents = Decimal(text) * 100
    if cents != int(cents):
        raise DataError(f"price {text}: bars have cent prices")
    return int(cents)


def _nanoseconds(text: str) -> int:
    """`2024-01-02T14:30:00Z` since the epoch; bars have whole seconds."""
    if len(text) != 20 or text[-1] != "Z":
        raise DataError(f"time {text}: bars end at whole seconds, in UTC")
    since = datetime.fromisoformat(text[:-1]) - datetime(1970, 1, 1)
    return since // timedelta(seconds=1) * 1_000_000_000


def _check_count(tapedb: Path, db: Path, text: TextSums) -> None:
    """The database's own count of messages."""
    summary = json.loads(_run(tapedb, "--json", "read", "--db", db, "bars", "--output", "none"))
    if summary["messages"] != text.sums().rows:
        raise DataError(f"tapedb counts {summary['messages']} messages and printed {text.sums().rows} lines")


def _run(*command: str | int | Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise DataError(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout
