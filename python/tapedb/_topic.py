"""Topics: messages between programs on one machine, through shared memory, with no server in between. They need Linux."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import _tapedb
from ._closing import Closing
from ._errors import Unavailable
from ._schema import known_of, schema_of
from ._stream import selection

if TYPE_CHECKING:
    from ._inputs import Schema, Symbols, Time
    from ._tapedb import Message


class Publisher(Closing):
    """Publishes messages into a topic. When :meth:`publish` returns, every subscriber can see the message."""

    def __init__(self, publisher: _tapedb.Publisher) -> None:
        self._publisher = publisher
        self.publish = publisher.publish  # type: ignore[method-assign]

    def publish(
        self,
        symbol: str,
        time: Time,
        record: object | None = None,
        /,
        *,
        type: str | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> int | None:
        """Publishes one message, as :meth:`Loader.append` takes it.

        Returns its sequence number. In a reliable topic it waits while the slowest subscriber is a whole ring behind, at most `timeout`
        seconds; then it returns `None`, and the message was not published.

        Raises:
            SchemaMismatch: A value does not fit; `field` names it.
            Rejected: The message is too large for the ring, or the topic is full of symbols.
        """
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._publisher.is_closed

    def close(self) -> None:
        """Frees its place in the topic."""
        self._publisher.close()


class Subscriber(Closing):
    """Reads a topic: every message that is published after it was opened. Iterate over it; Ctrl-C ends a wait."""

    def __init__(self, subscriber: _tapedb.Subscriber) -> None:
        self._subscriber = subscriber

    def __iter__(self) -> Iterator[Message]:
        return self._subscriber

    def __next__(self) -> Message:
        return next(self._subscriber)

    def next(self, timeout: float | None = None) -> Message | None:
        """The next message, waiting at most `timeout` seconds; `None`: the time is over.

        Raises:
            Missed: Messages were overwritten before they were read; the next call goes on behind them.
            Deleted: The topic was deleted.
        """
        return self._subscriber.next(timeout)

    def touch(self) -> None:
        """States that the subscriber is alive: for work that takes longer than the topic's stall time."""
        self._subscriber.touch()

    @property
    def missed(self) -> int:
        """Messages that were overwritten before they were read."""
        return self._subscriber.missed

    @property
    def next_sequence(self) -> int:
        """Sequence number that the next message has."""
        return self._subscriber.next_sequence

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._subscriber.is_closed

    def close(self) -> None:
        """Ends the subscription: publishers do not wait for it any more."""
        self._subscriber.close()


class Topic(Closing):
    """A topic: a ring in shared memory. Its content is lost with the machine, unless a stream keeps a copy (docs/TOPICS.md).

    Examples:
        >>> topic = db.topic("quotes", "message Quote { bid: decimal64 }")
        >>> subscriber = topic.subscribe()
        >>> topic.publish("AAPL", 1, bid="187.25")
        0
        >>> subscriber.next(timeout=1).bid
        Decimal('187.25')
    """

    def __init__(self, topic: _tapedb.Topic) -> None:
        self._topic = topic
        self._own: Publisher | None = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name."""
        return self._topic.name

    @property
    def schema(self) -> str:
        """The schema as text."""
        return self._topic.schema

    @property
    def path(self) -> str:
        """The file in shared memory."""
        return str(self._topic.path)

    def publisher(self, *, exclusive: bool = False) -> Publisher:
        """A publisher; an exclusive one is the only one, and costs less."""
        return Publisher(self._topic.publisher(exclusive))

    def publish(
        self,
        symbol: str,
        time: Time,
        record: object | None = None,
        /,
        *,
        type: str | None = None,
        timeout: float | None = None,
        **fields: Any,
    ) -> int | None:
        """Publishes through a publisher of this object's own: see :meth:`Publisher.publish`."""
        if self._own is None:
            with self._lock:
                self._own = self._own or self.publisher()
        return self._own.publish(symbol, time, record, type=type, timeout=timeout, **fields)

    def subscribe(
        self,
        *,
        symbols: Symbols = None,
        types: str | Sequence[str] | None = None,
        oldest: bool = False,
        waiting: str = "park",
        back_pressure: bool = True,
    ) -> Subscriber:
        """A subscriber.

        Args:
            symbols: Only these.
            types: Only these record types.
            oldest: Begins with the oldest message that can still be read.
            waiting: "park" sleeps; "spin" is fastest and takes a core; "yield" and "back_off" lie between.
            back_pressure: `False`: publishers never wait for it, and it may miss messages.
        """
        wanted = selection(symbols=symbols, types=types)
        return Subscriber(
            self._topic.subscribe(
                symbols=wanted["symbols"], types=wanted["types"], oldest=oldest, waiting=waiting, back_pressure=back_pressure
            )
        )

    def stats(self) -> dict[str, int]:
        """Numbers of publishers and subscribers, and the sequence number of the next message."""
        return self._topic.stats()

    def check(self) -> None:
        """Raises :class:`Deleted` when the topic was deleted or replaced since it was opened."""
        self._topic.check()

    def close(self) -> None:
        """Closes this object's publisher, and the topic."""
        if self._own is not None:
            self._own.close()
        self._topic.close()

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"


def topic(
    name: str,
    schema: Schema = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    database: str | os.PathLike[str] | None = None,
    delivery: str = "reliable",
    ring_bytes: int | None = None,
    symbols_bytes: int | None = None,
    stall: float | None = None,
    types: Sequence[type] = (),
) -> Topic:
    """Opens a topic; with a schema, creates it if there is none.

    Args:
        name: The name.
        schema: As for `Database.create`; without it the topic must exist.
        folder: Where it is; default: that of the database, or the user's own, in memory.
        database: The directory of the database that it belongs to.
        delivery: "reliable": publishers wait for subscribers; "lossy": slow subscribers miss messages.
        ring_bytes: 64 KiB to 1 GiB, a power of two; 8 MiB by default.
        symbols_bytes: Bytes for the names of symbols; 1 MiB by default.
        stall: Seconds that publishers wait for a subscriber that makes no progress; 1 by default.
        types: Classes that messages are shown as.
    """
    if not hasattr(_tapedb, "open_topic"):
        raise Unavailable("topics need Linux: they are rings in shared memory")
    text, known = schema_of(schema, name=name) if schema is not None else (None, known_of(types))
    found = _tapedb.open_topic(
        name,
        folder=None if folder is None else os.fspath(folder),
        database=None if database is None else os.fspath(database),
        schema=text,
        delivery=delivery,
        ring_bytes=ring_bytes,
        symbols_bytes=symbols_bytes,
        stall=stall,
        known=known,
    )
    return Topic(found)


def topics(*, folder: str | os.PathLike[str] | None = None, database: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the topics of a folder or database; default: those of this user that belong to no database."""
    if not hasattr(_tapedb, "list_topics"):
        return []
    return _tapedb.list_topics(folder, database)


def delete_topic(
    name: str, *, folder: str | os.PathLike[str] | None = None, database: str | os.PathLike[str] | None = None
) -> None:
    """Deletes a topic. Programs that have it open go on with each other; no other one finds it."""
    if not hasattr(_tapedb, "delete_topic"):
        raise Unavailable("topics need Linux: they are rings in shared memory")
    _tapedb.delete_topic(name, folder, database)
