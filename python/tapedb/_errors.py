"""The exceptions of TapeDB. All derive from :class:`Error`; their texts are those of the command `tapedb`."""

from __future__ import annotations


class Error(Exception):
    """An operation of the database failed. Nothing that was stored is lost by it."""


class NotFound(Error, LookupError):
    """What was named does not exist.

    Attributes: `what` ("stream", "database", "column", "symbol", "space" or "topic"), `name`, and `known`: names that exist.
    """

    what: str | None = None
    name: str | None = None
    known: list[str] = []


class Exists(Error):
    """There is one of this `name` already."""

    name: str | None = None


class Busy(Error):
    """Another process, or another object here, has the database open for writing: `path`, and `server`, its URL if it is a server."""

    path: str | None = None
    server: str | None = None


class ReadOnly(Error):
    """The database was opened for reading only."""


class Denied(Error, PermissionError):
    """The user of the server lacks a right."""


class Invalid(Error, ValueError):
    """An argument, or a combination of arguments, is not possible."""


class SchemaError(Invalid):
    """A schema is not valid, or a stream has another one. `record` is the record type, where it is one."""

    record: str | None = None


class SchemaMismatch(Error, ValueError):
    """A value does not fit the schema: `field` (a path such as `Tick.price`, or a column) and `row` (of the table, from 0)."""

    field: str | None = None
    row: int | None = None


class Rejected(Error):
    """A message was not appended or published."""


class Late(Rejected):
    """The stream refuses messages that are older than its last one. `time` and `last` are nanoseconds."""

    stream: str | None = None
    time: int | None = None
    last: int | None = None


class Stale(Error):
    """The `stream` is not what it was when it was opened: open it again."""

    stream: str | None = None


class Deleted(Stale):
    """The stream or topic was deleted."""


class Renamed(Stale):
    """The stream has another name now: `new_name`."""

    new_name: str | None = None


class Outdated(Stale):
    """The stream has another schema now."""


class Damaged(Error):
    """Stored messages cannot be read; reading goes on behind them.

    Attributes: `path`, `first_sequence` and `count` of the messages, as far as they are known.
    """

    path: str | None = None
    first_sequence: int | None = None
    count: int | None = None


class Missed(Error):
    """A reader was too slow, and `count` messages from `first_sequence` on were overwritten. Reading goes on behind them."""

    first_sequence: int | None = None
    count: int | None = None


class QueryError(Error):
    """A query failed: `reason` is "query" (its text: syntax, names, types), "value" (a number that does not fit) or "limit"."""

    reason: str | None = None


class StorageError(Error, OSError):
    """The operating system refused an operation, for example on a full disk: `path` and `errno`."""

    path: str | None = None
    errno: int | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Disconnected(Error, ConnectionError):
    """A server cannot be reached, or the connection broke: `place` is its URL. `may_be_done`: the request may have been carried out."""

    place: str | None = None
    may_be_done: bool = False


class Refused(Disconnected):
    """The server does not take the connection: credentials, versions, limits."""


class Closed(Error):
    """The object was closed."""


class Forked(Closed):
    """The object was opened before a fork, by the parent process: open the database again in the child."""


class Unavailable(Error, ImportError):
    """A package is not installed, or the platform does not have what was asked for."""


class InternalError(Error):
    """A defect of TapeDB. Please report it."""
