"""Streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _html, _tapedb
from ._batches import BatchReader
from ._cursor import Cursor
from ._errors import Closed, Invalid, NotFound
from ._loader import Loader
from ._local import Local
from ._schema import schema_of
from ._table import Table

if TYPE_CHECKING:
    import polars as pl

    from ._database import Database
    from ._inputs import Schema, Symbols, Time
    from ._table import Array

    Decimals = str | int | tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Stats:
    """Size and contents of a stream, at one moment."""

    messages: int
    """Messages in files; deleted ones count until their files are rewritten."""
    next_sequence: int
    """Messages ever appended, over all spaces."""
    bytes: int
    """Bytes of the stream's files."""
    symbols: int
    """Number of symbols."""
    first_time: int | None
    """Time of the earliest message, in nanoseconds; `None`: there is none."""
    last_time: int | None
    """Time of the latest message, in nanoseconds."""


def selection(
    *,
    symbols: Symbols = None,
    types: str | Sequence[str] | None = None,
    start: Time | None = None,
    end: Time | None = None,
    live: bool = False,
    history: bool = True,
    reverse: bool = False,
    last: int | None = None,
    last_values: bool = False,
    from_sequence: int | None = None,
    resume: str | None = None,
) -> dict[str, Any]:
    """Which messages are wanted, as the module takes it."""
    return {
        "symbols": _listed(symbols),
        "types": _listed(types),
        "start": start,
        "end": end,
        "live": live,
        "history": history,
        "reverse": reverse,
        "last": last,
        "last_values": last_values,
        "from_sequence": from_sequence,
        "resume": resume,
    }


def _listed(value: str | Sequence[str] | None) -> list[str] | None:
    """One text, or several, as a list."""
    return [value] if isinstance(value, str) else None if value is None else list(value)


class Stream(Local):
    """A stream: a durable sequence of messages in time order, with one schema.

    Iterating over it reads all messages; libraries that take Arrow tables take it as `table()`.

    Examples:
        >>> [m.size for m in stream]
        [100, 200, 300]
        >>> stream.symbols()
        ['AIG', 'BAC']
    """

    def __init__(self, db: Database, stream: _tapedb.Stream) -> None:
        self._db = db
        self._stream = stream

    @property
    def name(self) -> str:
        """The name."""
        return self._stream.name

    @property
    def schema(self) -> str:
        """The schema as text, which `create` takes."""
        return self._stream.schema

    @property
    def types(self) -> list[str]:
        """Names of the message types."""
        return self._stream.messages

    def type(self, name: str) -> type:
        """The class of a record type's messages, for `match` and `isinstance` where the schema was made from a text.

        Raises:
            NotFound: The stream has no such record type.

        Examples:
            >>> isinstance(next(stream.cursor()), stream.type("Tick"))
            True
        """
        found = self._stream.class_(name)
        if found is None:
            raise NotFound(f"stream {self.name!r} has no record type {name!r}; there is {', '.join(self.types)}")
        return found

    def symbols(self) -> list[str]:
        """Symbols in the order in which they were added."""
        return self._stream.symbols()

    def stats(self) -> Stats:
        """Present counts, sizes in bytes, and times in nanoseconds.

        Examples:
            >>> stats = stream.stats()
            >>> stats.messages, stats.symbols, tapedb.format_time(stats.last_time)
            (3, 2, '2026-01-05T14:30:02Z')
        """
        return Stats(**self._stream.stats())

    @property
    def options(self) -> dict[str, Any]:
        """The options, as `create` and `alter` take them. Durations are seconds."""
        return self._stream.options

    @property
    def created(self) -> int:
        """When the stream was created, in nanoseconds."""
        return self._stream.created

    def loader(self, space: int = 0, *, batch_bytes: int | None = None) -> Loader:
        """A loader. Several may write at once; those of different spaces do not wait for each other.

        Args:
            space: The space, counted from 0.
            batch_bytes: Bytes that make a batch full, 1 KiB to 4 MiB; 128 KiB by default. Larger ones load faster, and reach readers
                later.

        Raises:
            ReadOnly: The database was opened for reading.
            NotFound: The stream has no such space.

        Examples:
            >>> with stream.loader(batch_bytes=1 << 20) as load:
            ...     load.append("C", "2026-01-05T14:31", price=1, size=1)
        """
        return Loader(self._db._adopt(self._stream.loader(space, batch_bytes)))

    def cursor(
        self,
        *,
        symbols: Symbols = None,
        types: str | Sequence[str] | None = None,
        start: Time | None = None,
        end: Time | None = None,
        live: bool = False,
        history: bool = True,
        reverse: bool = False,
        last: int | None = None,
        last_values: bool = False,
        from_sequence: int | None = None,
        resume: str | None = None,
    ) -> Cursor:
        """A cursor over the messages. Without arguments: all of them, from the earliest to the last.

        Args:
            symbols: Only these. Some that the stream does not have yet may be added later.
            types: Only these record types.
            start: Only messages at or after this time.
            end: Only messages before this time.
            live: Goes on with new messages, in order of arrival, without gap or duplicate.
            history: `False` with `live`: only new messages.
            reverse: From the latest to the earliest.
            last: Begins with the last so many.
            last_values: Of history only the last message of each symbol and type.
            from_sequence: Begins with this sequence number, in order of arrival.
            resume: Continues at another cursor's position, with the same filters.

        Raises:
            Invalid: A combination that is not possible, such as a live cursor backwards.
            SchemaError: The stream has no such record type.
            Deleted: The stream was deleted.

        Examples:
            >>> [m.size for m in stream.cursor(start="2026-01-05T14:30:01", reverse=True)]
            [300, 200]
            >>> [m.symbol for m in stream.cursor(last_values=True)]
            ['BAC', 'AIG']
        """
        wanted = selection(
            symbols=symbols, types=types, start=start, end=end, live=live, history=history, reverse=reverse, last=last,
            last_values=last_values, from_sequence=from_sequence, resume=resume,
        )
        return Cursor(self._db._adopt(self._stream.cursor(wanted)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.cursor())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # As `table()`, so that libraries take the stream itself.
        return self.table().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.table().__arrow_c_schema__()

    def table(
        self,
        type: str | None = None,
        fields: Sequence[str] | None = None,
        *,
        symbols: Symbols = None,
        start: Time | None = None,
        end: Time | None = None,
        decimals: Decimals | Mapping[str, Decimals] = "float",
        sequences: bool = False,
        order: str = "time",
        progress: bool = False,
    ) -> Table:
        """Messages of one record type as columns: for Polars, pandas, pyarrow, NumPy and DuckDB.

        Args:
            type: The record type; may be left out where the stream has one message type.
            fields: The fields, in this order; others are not read.
            symbols: Only these.
            start: Only messages at or after this time.
            end: Only messages before this time.
            decimals: What becomes of `decimal64`: "float" (the nearest one), a scale or `(digits, scale)` (exact, else an error that
                names the row), or "raw" (the 64 bits); or these by field.
            sequences: With the column `sequence`, and `space` where the stream has several.
            order: "time", or "symbol": by symbol within each stored block, and by time within each symbol, which is faster.
            progress: Shows progress, with tqdm where it is installed.

        Raises:
            SchemaMismatch: There is no such record type or field.

        Examples:
            >>> stream.table("Tick", ["price"], decimals={"price": 4})
            Table(ticks, Tick; time: Timestamp(ns, "UTC"), symbol: Dictionary(Int32, Utf8), price: Decimal128(38, 4))
        """
        record = self._one_type(type)
        wanted = selection(symbols=symbols, start=start, end=end)
        reading = _reading(record, fields, decimals, sequences, order)
        db, stream = self._db, self._stream
        return Table(
            f"{self.name}, {record}",
            lambda: db._adopt(stream.batches(wanted, reading)),
            lambda: stream.count(wanted, record),
            progress=progress,
        )

    def arrow(
        self,
        type: str | None = None,
        fields: Sequence[str] | None = None,
        *,
        symbols: Symbols = None,
        start: Time | None = None,
        end: Time | None = None,
        live: bool = False,
        history: bool = True,
        every: float = 0,
        rows: int | None = None,
        resume: str | None = None,
        decimals: Decimals | Mapping[str, Decimals] = "float",
        sequences: bool = False,
        order: str = "time",
    ) -> BatchReader:
        """Messages of one record type as record batches, one after the other; of a live reader, history and then what arrives.

        Args:
            type: The record type; may be left out where the stream has one message type.
            fields: The fields, in this order; others are not read.
            symbols: Only these.
            start: Only messages at or after this time.
            end: Only messages before this time.
            live: Goes on with new messages, in order of arrival, without gap or duplicate.
            history: `False` with `live`: only new messages.
            every: Seconds that a batch of new messages waits for more of them, from its first message on: fewer and larger batches.
                0: a batch is what is there.
            rows: The most rows of a batch, at most 65,536; otherwise 16,384. A batch of so many does not wait for more.
            resume: Continues at another reader's or cursor's position, with the same filters.
            decimals: As for :meth:`table`.
            sequences: As for :meth:`table`.
            order: As for :meth:`table`, of history: new messages are always in order of arrival.

        Examples:
            >>> for batch in stream.arrow("Tick", ["size"], rows=2):
            ...     print(batch["size"])
            [100 200]
            [300]
        """
        wanted = selection(symbols=symbols, start=start, end=end, live=live, history=history, resume=resume)
        reading = _reading(self._one_type(type), fields, decimals, sequences, order, rows=rows, every=every)
        return BatchReader(self._db._adopt(self._stream.batches(wanted, reading)))

    def columns(
        self,
        type: str | None = None,
        fields: Sequence[str] | None = None,
        *,
        symbols: Symbols = None,
        start: Time | None = None,
        end: Time | None = None,
        order: str = "symbol",
    ) -> Iterator[dict[str, Array]]:
        """Columns as NumPy arrays by name, block by block, each of shape `(rows of the block,)`: read-only views, without a copy where
        there are no nulls. Arguments as for :meth:`table`.

        Examples:
            >>> sum(int(block["size"].sum()) for block in stream.columns("Tick", ["size"]))
            600
        """
        for batch in self.arrow(type, fields, symbols=symbols, start=start, end=end, order=order):
            yield batch.to_numpy()

    def scan(self, type: str | None = None, *, decimals: Decimals | Mapping[str, Decimals] = "float") -> pl.LazyFrame:
        """A lazy frame of Polars. Selected columns, conditions on `time` and `symbol`, and slices are applied while reading.

        Raises:
            Unavailable: Polars is not installed.

        Examples:
            >>> import polars as pl
            >>> stream.scan().filter(pl.col("symbol") == "AIG").select(pl.col("size").sum()).collect().item()
            400
        """
        from ._scan import scan

        return scan(self, self._one_type(type), decimals)

    def delete(self, *, start: Time | None = None, end: Time | None = None, symbols: Symbols = None) -> None:
        """Deletes the acknowledged messages from `start` to before `end`, of all symbols or of some.

        At least one argument is needed; `db.delete(name)` deletes a whole stream, :meth:`clear` all messages.

        Raises:
            Invalid: No argument was given.

        Examples:
            >>> stream.delete(symbols="AIG", end="2026-01-05T14:30:01")
            >>> [m.size for m in stream]
            [200, 300]
        """
        if start is None and end is None and symbols is None:
            raise Invalid("which messages? give start, end or symbols; clear() deletes all, Database.delete the stream itself")
        self._stream.delete(start, end, _listed(symbols))

    def clear(self) -> None:
        """Deletes all messages. Symbols and sequence numbers continue."""
        self._stream.delete(None, None, None)

    def alter(self, **options: Any) -> None:
        """Changes options: `late`, `keep_for`, `keep_bytes`, `seal_after`, `cold_after`, `file_bytes_max`. Durations are seconds,
        timedeltas or texts.

        Raises:
            Invalid: An option that does not exist, or that cannot be changed.

        Examples:
            >>> stream.alter(keep_for="2d")
            >>> stream.options["keep_for"]
            172800.0
        """
        self._stream.alter(options)

    def compare_schema(self, schema: Schema) -> list[str]:
        """What another schema would change, as sentences; empty: nothing. Changes nothing.

        Examples:
            >>> stream.compare_schema(stream.schema)
            []
        """
        return self._stream.compare_schema(schema_of(schema, name=self.types[0])[0])

    def rename_symbol(self, old: str, new: str) -> None:
        """Gives a symbol another name, for all its messages.

        Raises:
            NotFound: The stream does not have the symbol.
            Exists: It has one of the new name.

        Examples:
            >>> stream.rename_symbol("AIG", "AIG.N")
            >>> stream.symbols()
            ['AIG.N', 'BAC']
        """
        self._stream.rename_symbol(old, new)

    def seal(self) -> int:
        """Moves all messages into segments now: smaller, and faster to read. Returns how many were moved. After Ctrl-C, what was moved
        stays so.

        Examples:
            >>> stream.seal()
            3
        """
        return self._stream.seal()

    def _one_type(self, name: str | None) -> str:
        if name is not None:
            return name
        types = self.types
        if len(types) != 1:
            raise Invalid(f"stream {self.name!r} has several message types; say which one: {', '.join(types)}")
        return types[0]

    def _rates(self, stats: Stats, bars: int = 40) -> str:
        """Messages over time, as a line of bars."""
        if not stats.messages or stats.first_time is None or stats.last_time is None:
            return ""
        step = (stats.last_time - stats.first_time) // bars + 1
        bounds = [stats.first_time + step * number for number in range(bars + 1)]
        counts = [0] * bars
        for name in self.types:
            for number in range(bars):
                if bounds[number] > stats.last_time:
                    break
                # The last bound may be beyond the range of times.
                end = None if bounds[number + 1] > stats.last_time else bounds[number + 1]
                counts[number] += self.table(name, [], start=bounds[number], end=end).count()
        return _html.sparkline(counts)

    def __repr__(self) -> str:
        return f"Stream({self.name!r}: {', '.join(self.types)})"

    def _repr_html_(self) -> str:
        try:
            stats = self.stats()
        except Closed:
            return _html.text(f"{self!r}, closed")
        row = [
            f"{stats.messages:,}", f"{stats.symbols:,}", _html.size(stats.bytes), _html.time(stats.first_time),
            _html.time(stats.last_time), self._rates(stats),
        ]
        head = ["messages", "symbols", "size", "first", "last", "rate"]
        return _html.table(head, [row], caption=f"stream {self.name}") + _html.code(self.schema)


def _reading(
    record: str,
    fields: Sequence[str] | None,
    decimals: Any,
    sequences: bool,
    order: str,
    *,
    rows: int | None = None,
    every: float = 0,
) -> dict[str, Any]:
    """What columns are wanted, as the module takes it."""
    if order not in ("time", "symbol"):
        raise Invalid(f"order={order!r} is not possible; give \"time\" or \"symbol\"")
    whole, of_fields = decimals_of(decimals)
    return {
        "record": record,
        "fields": _listed(fields),
        "decimals": whole,
        "decimals_of": of_fields,
        "sequences": sequences,
        "in_time_order": order == "time",
        "rows": rows,
        "every": every,
    }


def decimals_of(decimals: Any) -> tuple[Any, dict[str, Any]]:
    """What becomes of all decimals, and of those in some fields."""

    def one(value: Any) -> Any:
        if isinstance(value, bool):
            raise Invalid(f"decimals={value!r} is not possible; give \"float\", \"raw\", a scale, or digits and scale")
        return (38, value) if isinstance(value, int) else value

    if isinstance(decimals, Mapping):
        return "float", {name: one(value) for name, value in decimals.items()}
    return one(decimals), {}


