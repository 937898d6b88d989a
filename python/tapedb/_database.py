"""Databases."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import _html, _tapedb
from ._closing import Closing
from ._cursor import Cursor
from ._errors import Closed
from ._progress import progress_of
from ._schema import known_of, schema_of
from ._sql import Query
from ._stream import Stream, selection

if TYPE_CHECKING:
    from ._inputs import Schema, Symbols, Time
    from ._stream import Decimals
    from ._topic import Topic


class _Child(Protocol):
    def close(self) -> None: ...


_T = TypeVar("_T", bound=_Child)


class Database(Closing):
    """An open database: a directory here, or a server's. As a context manager it is closed at the end.

    It may be used from several threads. After a fork the child gets :class:`Forked` from it, and opens the database again.

    Examples:
        >>> db
        Database('my.tapedb')
        >>> "ticks" in db, list(db), db["ticks"]
        (True, ['ticks'], Stream('ticks': Tick))
    """

    def __init__(self, db: _tapedb.Database) -> None:
        self._db = db
        self._known: dict[str, dict[str, type]] = {}
        self._children: set[weakref.ref[Any]] = set()
        # Reentrant: a signal's handler may close the database in the middle of `_adopt`.
        self._closing = threading.RLock()
        self._is_closing = False

    def _adopt(self, child: _T) -> _T:
        """Has a child closed with the database; at once, if another thread is just closing it."""
        with self._closing:
            if not self._is_closing:
                self._children.add(weakref.ref(child, self._children.discard))
                return child
        child.close()
        raise Closed("the database is closed; open it again")

    @property
    def path(self) -> str:
        """The directory, or the server's URL."""
        return self._db.path

    @property
    def read_only(self) -> bool:
        """Whether it can only be read."""
        return self._db.is_read_only

    def streams(self) -> list[str]:
        """Names of all streams, sorted."""
        return self._db.streams()

    def stream(self, name: str, *, types: Sequence[type] = ()) -> Stream:
        """A stream that exists; also `db[name]`.

        Args:
            name: The name.
            types: Classes that messages and nested records are shown as, by the classes' names: `isinstance` and `match` then work on
                them. Those that the stream was created from with this object are known.

        Raises:
            NotFound: There is no such stream; `known` has some that exist.

        Examples:
            >>> db.stream("ticks").types
            ['Tick']
            >>> db["tics"]
            Traceback (most recent call last):
            tapedb.NotFound: there is no stream "tics"; similar: ticks
        """
        known = self._known.setdefault(name, {})
        known.update(known_of(types))
        return Stream(self, self._adopt(self._db.stream(name, dict(known))))

    def __getitem__(self, name: str) -> Stream:
        return self.stream(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._db.has(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.streams())

    def create(self, name: str, schema: Schema, *, exist_ok: bool = False, message: str | None = None, **options: Any) -> Stream:
        """Creates a stream.

        Args:
            name: The name.
            schema: A dataclass, pydantic model or named tuple; a list of them, for several message types; a schema text; or an Arrow
                or Polars schema, whose columns `time` and `symbol` are left out.
            exist_ok: Opens the stream if it exists with this schema.
            message: Name of the message type made from an Arrow schema; by default the stream's name, capitalised.
            options: `durability` ("transient", "async" or "sync"), `late` ("accept" or "refuse"), `spaces`, `keep_for`, `keep_bytes`,
                `seal_after`, `cold_after`, `bytes_max`, `file_bytes_max`. Durations are seconds, timedeltas or texts such as "30d".

        Raises:
            Exists: There is one of the name.
            SchemaError: The schema is not valid.
            Invalid: The name or an option is not possible.

        Examples:
            >>> from dataclasses import dataclass
            >>> @dataclass
            ... class Bar:
            ...     close: float
            ...     volume: int | None = None
            >>> bars = db.create("bars", Bar, durability="sync", keep_for="30d")
            >>> print(bars.schema)
            message Bar {
                close: f64,
                volume: i64? = null,
            }
            >>> db.create("quotes", "message Quote { bid: decimal64, ask: decimal64 }")
            Stream('quotes': Quote)
        """
        title = message or "".join(part.capitalize() for part in name.replace(".", "_").split("_"))
        text, known = schema_of(schema, name=title)
        stream = self._db.create(name, text, dict(known), exist_ok, options)
        self._known[name] = known
        return Stream(self, self._adopt(stream))

    def change_schema(self, name: str, schema: Schema) -> Stream:
        """Gives a stream another schema. Stored messages are converted when they are read; `Stream.compare_schema` tells how.

        Raises:
            SchemaError: Stored messages cannot be converted to it.

        Examples:
            >>> changed = db.change_schema("ticks", "message Tick { price: decimal64, size: u64, venue: string? }")
            >>> next(changed.cursor()).venue is None
            True
        """
        stream = self.stream(name)
        text, known = schema_of(schema, name=stream.types[0])
        self._known[name] = known
        return Stream(self, self._adopt(self._db.change_schema(name, text, dict(known))))

    def delete(self, name: str) -> None:
        """Deletes a stream with all its messages."""
        self._db.delete(name)
        self._known.pop(name, None)

    def rename(self, name: str, new: str) -> Stream:
        """Gives a stream another name; positions stay good.

        Raises:
            Exists: There is one of the new name.

        Examples:
            >>> db.rename("ticks", "trades")
            Stream('trades': Tick)
        """
        self._db.rename(name, new)
        self._known[new] = self._known.pop(name, {})
        return self.stream(new)

    def cursor(
        self,
        streams: Sequence[str],
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
        resume: str | None = None,
    ) -> Cursor:
        """A cursor over several streams, merged by time; equal times are in the order of the streams. Arguments as for
        :meth:`Stream.cursor`.

        Raises:
            NotFound: One of the streams does not exist.

        Examples:
            >>> other = db.create("other", stream)
            >>> with other.loader() as load:
            ...     load.append("C", "2026-01-05T14:30:01.5", price=1, size=5)
            >>> [(m.stream, m.size) for m in db.cursor(["ticks", "other"], start="2026-01-05T14:30:01")]
            [('ticks', 200), ('other', 5), ('ticks', 300)]
        """
        names = [streams] if isinstance(streams, str) else list(streams)
        wanted = selection(
            symbols=symbols, types=types, start=start, end=end, live=live, history=history, reverse=reverse, last=last,
            last_values=last_values, resume=resume,
        )
        known = [(name, dict(self._known.get(name, {}))) for name in names]
        return Cursor(self._adopt(self._db.cursor(known, wanted)))

    def sql(
        self,
        query: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        decimals: Decimals = "float",
        time_limit: float | None = None,
        max_rows: int | None = None,
    ) -> Query:
        """Runs a query in SQL: `docs/SQL.md` describes the language.

        It runs on the server of the database. On a database in this process it needs a wheel that was built with SQL, as released ones are.

        Args:
            query: The query.
            params: Values for `$1`, `$2`, …: a sequence; or for `$name`: a mapping. Numbers, texts, bytes, decimals, times (aware datetimes,
                dates, `datetime64`) and None, never pasted into the text.
            decimals: What becomes of `decimal64`, as for :meth:`Stream.table`.
            time_limit: Seconds; a query that runs longer fails.
            max_rows: A query that has more rows fails.

        Raises:
            QueryError: The query is wrong, a value does not fit, or a limit is reached; `reason` tells which. Rows are computed while they
                are read, so that the last two may come then.
            Unavailable: The database is in this process, and this build has no SQL.
        """
        return Query(self, query, params, decimals, time_limit, max_rows)

    def topic(self, name: str, schema: Schema = None, **options: Any) -> Topic:
        """A topic that belongs to this database: see :func:`tapedb.topic`."""
        from ._topic import topic

        if self._db.is_remote:
            from ._errors import Invalid

            raise Invalid("topics are in this machine's memory: use tapedb.topic(name, database=…) with the database's directory")
        return self._adopt(topic(name, schema, database=self.path, **options))

    def backup(self, to: str | os.PathLike[str], *, deleted: str = "delete", progress: bool = False) -> dict[str, Any]:
        """Updates a backup: a database in the directory `to`, created if it does not exist. Checked while it is copied.

        Args:
            to: The directory.
            deleted: What becomes of streams that are deleted here: "delete" them there too, unless none would remain; "delete_all"; or
                "keep" them.
            progress: Shows progress.

        Returns:
            `streams`, `segments`, `bytes`, `damaged`, `removed`, and `failed`: names and errors of streams that were not copied.

        Raises:
            StorageError: The directory cannot be written.

        Examples:
            >>> db.backup("backup.tapedb")["streams"]
            1
            >>> tapedb.open("backup.tapedb", "r")["ticks"].stats().messages
            3
        """
        done = 0
        with progress_of(progress, "backup") as shown:

            def count(written: int) -> None:
                nonlocal done
                done += written
                if shown is not None:
                    shown(done)

            return self._db.backup(os.fspath(to), deleted, count)

    def status(self) -> dict[str, Any] | None:
        """The status of the server behind the database; `None`: there is no server."""
        import json

        text = self._db.server_status()
        return None if text is None else json.loads(text)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._db.is_closed

    def close(self) -> None:
        """Closes the database with its cursors and loaders, which flush. A second call does nothing."""
        failed: Exception | None = None
        with self._closing:
            self._is_closing = True
            children = [found for child in self._children.copy() if (found := child()) is not None]
        for child in children:
            try:
                child.close()
            except Exception as error:
                failed = error
        self._db.close()
        if failed is not None:
            raise failed

    def __repr__(self) -> str:
        return f"Database({self.path!r}{', closed' if self.closed else ', read-only' if self.read_only else ''})"

    def _repr_html_(self) -> str:
        if self.closed:
            return _html.text(repr(self))
        rows = []
        for name in self.streams():
            stream = self.stream(name)
            stats = stream.stats()
            rows.append(
                (name, ", ".join(stream.types), f"{stats.messages:,}", f"{stats.symbols:,}", _html.size(stats.bytes), _html.time(stats.first_time), _html.time(stats.last_time))
            )
        return _html.table(["stream", "types", "messages", "symbols", "size", "first", "last"], rows, caption=self.path)


def open(
    place: str | os.PathLike[str],
    mode: str = "w",
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    connections: int = 1,
    tls_roots: str | os.PathLike[str] | None = None,
    wait: float = 0,
    reconnect_timeout: float = 30,
    spin: float = 0,
    on_connection: Callable[[str], None] | None = None,
) -> Database:
    """Opens a database.

    Args:
        place: A directory, or the URL of a server: `tape://host:port`, `tapes://` (TLS), `tape+unix:///path`, `tape+shm:///path` (shared
            memory).
        mode: Of a directory: "w" for reading and writing (creates it), "r+" the same but it must exist, "r" for reading, beside a writer
            in another process.
        user, password: Credentials; also in the URL. `TAPEDB_USER` and `TAPEDB_PASSWORD` in the environment are used without them.
        token: An access token instead; else `TAPEDB_TOKEN`.
        connections: To a server, 1 to 64: cursors and loaders are distributed over them.
        tls_roots: A PEM file of authorities to trust; else `TAPEDB_CA`, else those of the system.
        wait: Seconds in which a server that cannot be reached at first is tried again.
        reconnect_timeout: Seconds that a call waits for a lost connection to be restored.
        spin: Seconds that waiting threads poll before they sleep: low latency at the price of a core.
        on_connection: Called with a text when the connection is lost, and when it is restored. It must not use the database.

    Raises:
        Busy: Another process has the directory open for writing.
        NotFound: There is no database.
        Disconnected: The server cannot be reached; `Refused` when it does not take the connection.

    Examples:
        >>> with tapedb.open("another.tapedb") as another:
        ...     another.streams()
        []
        >>> tapedb.open("nothing.tapedb", "r")
        Traceback (most recent call last):
        tapedb.NotFound: ...
    """
    if mode not in ("r", "r+", "w"):
        from ._errors import Invalid

        raise Invalid(f"mode={mode!r} is not possible; give \"r\", \"r+\" or \"w\"")
    place = os.fspath(place)
    is_remote = "://" in place
    login: tuple[str | None, str] | None = None
    if token is None and password is None and is_remote:
        token = os.environ.get("TAPEDB_TOKEN")
        password = os.environ.get("TAPEDB_PASSWORD") if token is None else None
    if token is not None:
        login = (None, token)
    elif password is not None:
        name = user or os.environ.get("TAPEDB_USER") or _user_of(place)
        if name is None:
            from ._errors import Invalid

            raise Invalid("a password without a user: give user=…, or write it into the URL: tape://user@host")
        login = (name, password)
    roots = tls_roots if tls_roots is not None else os.environ.get("TAPEDB_CA")
    return Database(
        _tapedb.open(
            place,
            mode=mode,
            login=login,
            connections=connections,
            tls_roots=None if roots is None else os.fspath(roots),
            wait=wait,
            reconnect_timeout=reconnect_timeout,
            spin=spin,
            on_connection=on_connection,
        )
    )


def _user_of(url: str) -> str | None:
    """The user in a URL."""
    import urllib.parse

    name = urllib.parse.urlsplit(url).username
    return urllib.parse.unquote(name) if name else None
