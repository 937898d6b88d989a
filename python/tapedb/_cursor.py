"""Cursors: they read messages, history and then live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from ._closing import Closing
from ._waiting import Waiting

if TYPE_CHECKING:
    from . import _tapedb
    from ._inputs import Time
    from ._tapedb import Message


class Cursor(Closing):
    """Reads messages of one or several streams, in time order; a live cursor goes on with what arrives.

    Iterate over it, with `for` or `async for`. Messages are fetched ahead in blocks of up to 512, without Python's lock; Ctrl-C ends a
    wait within 200 ms, and the cursor can be used further. A slow reader costs no memory: the rest stays in the files.

    Examples:
        >>> for m in stream.cursor(symbols=["AIG"], start="2026-01-05T14:30"):
        ...     print(m.datetime, m.symbol, m.price)
        2026-01-05 14:30:00+00:00 AIG 48.35
        2026-01-05 14:30:02+00:00 AIG 48.36
    """

    def __init__(self, cursor: _tapedb.Cursor) -> None:
        self._cursor = cursor
        self._waiting = Waiting(cursor._fetch)

    def __iter__(self) -> Iterator[Message]:
        return self._cursor

    def __next__(self) -> Message:
        return next(self._cursor)

    def next(self, timeout: float | None = None) -> Message | None:
        """The next message, waiting at most `timeout` seconds. `None`: the time is over, or there is none left (see :attr:`ended`).

        `next(0)` takes what is there.

        Raises:
            Damaged: Once for each place in the files that cannot be read; the next call goes on behind it.
            Missed: Messages of a transient stream were dropped before they were read; the next call goes on behind them.
            Deleted: The stream was deleted.
            Disconnected: The server is lost for longer than `reconnect_timeout`.

        Examples:
            >>> cursor = stream.cursor(live=True)
            >>> cursor.next().price
            Decimal('48.35')
        """
        return self._cursor.next(timeout)

    def take(self, count: int, timeout: float | None = None) -> list[Message]:
        """The next messages, at most `count`: waits for the first one at most `timeout` seconds, and takes what is there.

        Raises:
            Missed, Damaged, Deleted: As :meth:`next`; messages before it are returned first.

        Examples:
            >>> [m.size for m in stream.cursor(live=True).take(1000, timeout=1)]
            [100, 200, 300]
        """
        return self._cursor.fetch_many(count, timeout)

    def position(self) -> str:
        """The position behind the last message that was returned, as a text: another cursor continues there with `resume=`.

        Examples:
            >>> cursor = stream.cursor()
            >>> cursor.next().size, next(stream.cursor(resume=cursor.position())).size
            (100, 200)
        """
        return self._cursor.position()

    def seek(self, time: Time) -> None:
        """Continues with the first message at or after a time (backwards: the last one at or before it).

        Examples:
            >>> cursor = stream.cursor()
            >>> cursor.seek("2026-01-05T14:30:01")
            >>> cursor.next().symbol
            'BAC'
        """
        self._cursor.seek(time)

    @property
    def live(self) -> bool:
        """Whether the cursor goes on with new messages behind history."""
        return self._cursor.live

    @property
    def caught_up(self) -> bool:
        """Whether a live cursor has returned all of history."""
        return self._cursor.is_at_live()

    @property
    def ended(self) -> bool:
        """Whether there is no message left. A live cursor does not end."""
        return self._cursor.is_over

    @property
    def count(self) -> int:
        """Messages returned so far."""
        return self._cursor.count

    @property
    def streams(self) -> list[str]:
        """Names of the streams."""
        return self._cursor.streams

    @property
    def closed(self) -> bool:
        """Whether the cursor was closed."""
        return self._cursor.is_closed

    def close(self) -> None:
        """Closes the cursor; a wait in another thread ends with :class:`Closed`."""
        self._cursor.close()
        self._waiting.close()

    async def __aiter__(self) -> AsyncIterator[Message]:
        cursor = self._cursor
        while True:
            message = cursor._pop()
            if message is not None:
                yield message
            elif cursor.is_over:
                return
            else:
                await self._waiting.once()

    async def anext(self) -> Message | None:
        """The next message; `None` at the end. To be cancelled at will: nothing is lost."""
        while True:
            message = self._cursor._pop()
            if message is not None or self._cursor.is_over:
                return message
            await self._waiting.once()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "ended" if self.ended else "live" if self.live else "open"
        return f"Cursor({', '.join(self.streams)}; {state}, {self.count:,} messages returned)"
