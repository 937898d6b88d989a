"""Readers of record batches: messages as columns, history and then live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from ._closing import Closing
from ._table import RecordBatch
from ._waiting import Waiting

if TYPE_CHECKING:
    from . import _tapedb


class BatchReader(Closing):
    """Reads messages of one record type as record batches; a live reader goes on with what arrives.

    Iterate over it, with `for` or `async for`. A batch has 1 to 65,536 rows, and the memory is that of one: a slow reader of a live
    stream leaves the rest in the files. Ctrl-C ends a wait within 200 ms, and the reader can be used further.

    Examples:
        >>> reader = stream.arrow("Tick", live=True, every=0.5)
        >>> batch = next(reader)
        >>> len(batch), batch["size"].sum().item()
        (3, 600)
        >>> reader.close()
    """

    def __init__(self, batches: _tapedb.Batches) -> None:
        self._batches = batches
        self._waiting = Waiting(batches._fetch)

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        return RecordBatch(next(self._batches))

    def next(self, timeout: float | None = None) -> RecordBatch | None:
        """The next batch, waiting at most `timeout` seconds. `None`: the time is over, or there is none left (see :attr:`ended`).

        A batch that still waits for more messages (`every`) comes with a later call.

        Raises:
            SchemaMismatch: A decimal is not exact in the type that was asked for; the next call goes on behind its batch.
            Damaged: Once for each place in the files that cannot be read; the next call goes on behind it.
            Missed: Messages of a transient stream were dropped before they were read; the next call goes on behind them.
            Deleted: The stream was deleted.

        Examples:
            >>> reader = stream.arrow("Tick", live=True)
            >>> reader.next(timeout=1).num_rows
            3
            >>> reader.next(timeout=0) is None
            True
        """
        batch = self._batches.next(timeout)
        return None if batch is None else RecordBatch(batch)

    def position(self) -> str | None:
        """The position behind the batch that was returned last, as a text: another reader continues there with `resume=`.

        `None` while history is read by symbol, where there is none.

        Examples:
            >>> reader = stream.arrow("Tick", rows=2)
            >>> next(reader).num_rows, next(stream.arrow("Tick", resume=reader.position())).num_rows
            (2, 1)
        """
        return self._batches.position()

    @property
    def columns(self) -> dict[str, str]:
        """Arrow types of the columns, by name."""
        return dict(self._batches.columns)

    @property
    def live(self) -> bool:
        """Whether the reader goes on with new messages behind history."""
        return self._batches.live

    @property
    def caught_up(self) -> bool:
        """Whether a live reader has returned all of history."""
        return self._batches.is_at_live()

    @property
    def ended(self) -> bool:
        """Whether there is no batch left. A live reader does not end."""
        return self._batches.is_over

    @property
    def rows(self) -> int:
        """Rows returned so far."""
        return self._batches.rows

    @property
    def closed(self) -> bool:
        """Whether the reader was closed."""
        return self._batches.is_closed

    def close(self) -> None:
        """Closes the reader; a wait in another thread ends with :class:`Closed`."""
        self._batches.close()
        self._waiting.close()

    async def __aiter__(self) -> AsyncIterator[RecordBatch]:
        while (batch := await self.anext()) is not None:
            yield batch

    async def anext(self) -> RecordBatch | None:
        """The next batch; `None` at the end. To be cancelled at will: nothing is lost."""
        while True:
            batch = self._batches._pop()
            if batch is not None:
                return RecordBatch(batch)
            if self._batches.is_over:
                return None
            await self._waiting.once()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "live" if self.live else "open"
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._batches.columns)
        return f"BatchReader({state}, {self.rows:,} rows returned; {columns})"
