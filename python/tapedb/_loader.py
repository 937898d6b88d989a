"""Loaders: they write messages into a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _frames, _tapedb
from ._local import Local
from ._progress import progress_of

if TYPE_CHECKING:
    from ._inputs import SupportsTable, Time


class Loader(Local):
    """Writes messages into one stream: one by one, or as tables.

    Messages wait in a batch; a full batch is sent by itself, :meth:`flush` sends the rest and waits until it is acknowledged. As a
    context manager a loader flushes at the end; after an exception too, so that what was appended before it is stored.

    A loader may be used from several threads.

    Examples:
        >>> with stream.loader() as load:
        ...     load.append("AIG", "2026-01-05T14:31", price="48.35", size=100)
        >>> stream.stats().messages
        4
    """

    def __init__(self, loader: _tapedb.Loader) -> None:
        self._loader = loader
        # Without another call in between: this is the hot path.
        self.append = loader.append  # type: ignore[method-assign]

    def append(
        self, symbol: str, time: Time, record: object | None = None, /, *, type: str | None = None, **fields: Any
    ) -> None:
        """Appends one message.

        Args:
            symbol: The instrument, 1 to 255 bytes of UTF-8.
            time: Nanoseconds since 1970 (UTC), ISO text, aware datetime or datetime64.
            record: An object with the fields as attributes, such as a dataclass, or a dictionary. Or give the fields:
            type: Name of the record type, where the stream has several.
            fields: Values by name. Those that are left out get their defaults, or null.

        Raises:
            SchemaMismatch: A value does not fit; `field` names it. The message is not appended.
            Invalid: The time is none.
            Late: The stream refuses messages that are older than its last one.

        Examples:
            >>> load = stream.loader()
            >>> load.append("AIG", 1767623460000000000, {"price": "48.37", "size": 1})
            >>> load.append("AIG", "2026-01-05T14:31", price="48.37", size=-1)
            Traceback (most recent call last):
            tapedb.SchemaMismatch: Tick.size: not appended: needs u32, has -1 (int)
            >>> load.pending
            1
        """

    def append_table(
        self,
        table: SupportsTable,
        *,
        time: str = "time",
        symbol: str = "symbol",
        type: str | None = None,
        zone: str | None = None,
        whole: bool = True,
        progress: bool = False,
    ) -> int:
        """Appends all rows of a table; returns how many.

        Args:
            table: A frame of Polars or pandas, an Arrow table or stream, a DuckDB relation, a structured array, or a dictionary of
                columns; in a dictionary, a single value is that of all rows.
            time: The column of times: timestamps, dates, ISO texts, or integers of nanoseconds since 1970. An index of times without a
                name is that column.
            symbol: The column of symbols.
            type: Name of the record type, where the stream has several.
            zone: The time zone of times that have none, such as "UTC" or "Europe/Berlin". Without it they are refused.
            whole: All rows of the table are appended, or none. `False`: of each record batch all rows or none, so that the memory is
                that of one; those before one that does not fit stay.
            progress: Shows progress, with tqdm where it is installed.

        All other columns are fields. Values are converted exactly, or refused: then nothing of the table is appended. For this a table
        of several record batches is read twice: first it is checked, then it is appended. Of a reader, which can be read once, all
        batches are kept until they are appended; `whole=False` is for one that does not fit into memory.

        A disk that is full, a server that is lost and Ctrl-C may leave the first rows of a table appended; a note at the exception
        states how many.

        Raises:
            SchemaMismatch: A column or value does not fit; `field` and `row` name it.

        Examples:
            >>> import numpy as np
            >>> times = np.datetime64("2026-01-05T15:00", "ns") + np.arange(4) * 1_000_000_000
            >>> with stream.loader() as load:
            ...     load.append_table({"time": times, "symbol": "AIG", "price": [48.1, 48.2, 48.3, 48.4], "size": np.arange(4)})
            4
        """
        columns = {"record": type, "time": time, "symbol": symbol, "zone": zone}
        with progress_of(progress, "append", _length_of(table)) as shown:
            return self._loader.append_batches(_frames.with_arrow(table, time), columns, whole, shown)

    def flush(self) -> int:
        """Sends what waits, and waits until it is as durable as the stream promises. Returns the next sequence number.

        After an error nothing is lost: call it again when the cause is removed.

        Raises:
            StorageError: The disk is full.
            Disconnected: The server is lost for longer than `reconnect_timeout`.
            Deleted: The stream was deleted: :meth:`discard` drops what waits.

        Examples:
            >>> load = stream.loader()
            >>> load.append("AIG", "2026-01-05T14:31", price="48.35", size=100)
            >>> load.flush()
            4
        """
        return self._loader.flush()

    def send(self) -> None:
        """Sends what waits without waiting for its acknowledgement."""
        self._loader.send()

    @property
    def pending(self) -> int:
        """Messages that are not acknowledged yet."""
        return self._loader.pending

    @property
    def count(self) -> int:
        """Messages appended so far."""
        return self._loader.count

    def discard(self) -> int:
        """Drops the messages that wait, such as after a flush that fails for good. Returns how many."""
        return self._loader.discard()

    def close(self) -> None:
        """Flushes and closes. After an error the loader is still open, and still has its messages."""
        self._loader.close()

    @property
    def closed(self) -> bool:
        """Whether the loader was closed."""
        return self._loader.is_closed

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._loader.close()
            return
        try:
            self._loader.close()
        except Exception as second:
            error.add_note(f"what was appended before could not be stored: {second}")

    def __repr__(self) -> str:
        return "Loader(closed)" if self.closed else f"Loader({self.count:,} messages appended, {self.pending:,} pending)"


def _length_of(table: Any) -> int | None:
    try:
        return len(table)
    except TypeError:
        return None
