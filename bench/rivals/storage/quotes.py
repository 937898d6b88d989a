"""Real quotes out of the zips of `us-equity-ticks`: AIG and BAC, three days, one side in every row."""

import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from .dataset import DataError, Dataset, write_dataset
from .schema import QUOTES, with_codes
from .text_sums import TextSums

SYMBOLS = ("AIG", "BAC")
_NUMBERS = ("bid_price", "bid_size", "ask_price", "ask_size")
_FIELDS = ("time", *_NUMBERS, "venue", "condition", "suspicious")
_TYPES = {name: pa.int64() for name in _FIELDS} | {"venue": pa.string(), "condition": pa.string()}
_MS = 1_000_000


def quotes(data: Path, folder: Path) -> Dataset | None:
    """All quotes merged by time, those of the same time in the order of the files; None without files."""
    paths = _paths(data)
    if not paths:
        return None
    text = _TextSums()
    table = pa.concat_tables(_table(path, text) for path in paths)
    # Stable, as pyarrow promises.
    table = table.sort_by("time")
    return write_dataset("quotes", with_codes(table, QUOTES), text.sums, folder)


def _paths(data: Path) -> list[Path]:
    folder = data / "us-equity-ticks"
    return [path for symbol in SYMBOLS for path in sorted((folder / symbol.lower()).glob("*_quote.zip"))]


def _table(path: Path, text: "_TextSums") -> pa.Table:
    symbol, midnight = path.parent.name.upper(), _midnight(path)
    parts = []
    for block in _members(path):
        text.add(block, symbol, midnight)
        parts.append(_parsed(block, symbol, midnight))
    return pa.concat_tables(parts)


def _members(path: Path) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            yield archive.read(name)


def _midnight(path: Path) -> int:
    """Midnight in New York on the file's day, in nanoseconds; no session crosses a change of the clocks."""
    day = datetime.strptime(path.name[:8], "%Y%m%d").replace(hour=12, tzinfo=ZoneInfo("America/New_York"))
    return (int(day.timestamp()) - 12 * 3600) * 1_000_000_000


def _parsed(block: bytes, symbol: str, midnight: int) -> pa.Table:
    read = pyarrow.csv.ReadOptions(column_names=list(_FIELDS))
    convert = pyarrow.csv.ConvertOptions(column_types=_TYPES)
    table = pyarrow.csv.read_csv(pa.BufferReader(block), read_options=read, convert_options=convert)
    columns = {name: table[name] for name in _FIELDS}
    columns["time"] = pc.add(pc.multiply(table["time"], _MS), midnight).cast(pa.timestamp("ns"))
    columns["symbol"] = pa.repeat(pa.scalar(symbol), table.num_rows)
    columns["condition"] = _from_hex(table["condition"])
    columns["suspicious"] = table["suspicious"].cast(pa.bool_())
    return pa.table({name: columns[name] for name in QUOTES.names})


def _from_hex(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """There are few distinct ones."""
    distinct = texts.unique()
    values = pa.array([int(text, 16) for text in distinct.to_pylist()], pa.int64())
    return pc.take(values, pc.index_in(texts, distinct))


class _TextSums:
    """Times count from the midnight of their file."""

    def __init__(self) -> None:
        numbers = [(name, 1 + at, int) for at, name in enumerate(_NUMBERS)]
        self.sums = TextSums(
            [
                ("time", 0, self._nanoseconds),
                ("symbol", -1, None),
                *numbers,
                ("venue", 5, None),
                ("condition", 6, _hex),
                ("suspicious", 7, _flag),
            ]
        )

    def add(self, block: bytes, symbol: str, midnight: int) -> None:
        self._midnight = midnight
        self.sums.add(block, {"symbol": symbol})
        self.sums.flush()

    def _nanoseconds(self, text: str) -> int:
        return self._midnight + int(text) * _MS


def _hex(text: str) -> int:
    return int(text, 16)


def _flag(text: str) -> int:
    if text not in ("0", "1"):
        raise DataError(f"suspicious is {text!r}, neither 0 nor 1; is this a file of quotes?")
    return int(text)
