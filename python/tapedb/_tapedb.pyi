# Made by python/check stubs.
"""
The module.
"""

from collections.abc import Callable
from _typeshed import SupportsGetItem
from os import PathLike
from pathlib import Path
from typing import Any, Final, SupportsFloat, SupportsIndex, final
from typing_extensions import disjoint_base

__all__ = ["__version__", "has_sql", "Batch", "Batches", "Buffer", "Cursor", "Database", "Field", "Loader", "Message", "Publisher", "Record", "Server", "Stream", "Subscriber", "Topic", "batch_of_columns", "check_schema", "collect", "delete_topic", "ending", "forked", "format_time", "imported", "list_topics", "nanos", "open", "open_topic", "schema_of_arrow", "serve"]

__version__: Final[str]
"""
The version of the package.
"""

has_sql: Final[bool]
"""
Whether queries run on databases of this process.
"""

@final
class Batch:
    """
    Up to 65,536 rows of one record type.
    """
    def __arrow_c_array__(self, /, requested_schema: object | None = None) -> tuple[Any, ...]: ...
    def __arrow_c_schema__(self, /) -> object: ...
    def __arrow_c_stream__(self, /, requested_schema: object | None = None) -> object: ...
    def __len__(self, /) -> int: ...
    @property
    def names(self, /) -> list[str]:
        """
        Names of the columns.
        """
    @property
    def num_rows(self, /) -> int: ...
    def parts(self, /, index: SupportsIndex) -> tuple[Any, ...]:
        """
        The parts of a column: see [`parts`].
        """
    def slice(self, /, offset: SupportsIndex, length: SupportsIndex) -> Batch: ...
    @property
    def types(self, /) -> list[str]:
        """
        Arrow types of the columns.
        """

@final
class Batches:
    """
    Record batches, one after the other.
    """
    def __arrow_c_schema__(self, /) -> object: ...
    def __arrow_c_stream__(self, /, requested_schema: object | None = None) -> object:
        """
        Arrow's C stream, once: the batches are read as the consumer asks for them.
        """
    def __iter__(self, /) -> Batches: ...
    def __next__(self, /) -> Batch: ...
    def _fetch(self, /, timeout: SupportsFloat | SupportsIndex | None = None) -> bool:
        """
        Reads ahead, waiting at most that many seconds; `true` when the next call has something at once.
        """
    def _pop(self, /) -> Batch | None:
        """
        A batch that was read ahead; `None`: there is none, or another thread is reading it.
        """
    def close(self, /) -> None: ...
    @property
    def columns(self, /) -> list[tuple[str, str]]:
        """
        Names and Arrow types of the columns.
        """
    def empty(self, /) -> Batches:
        """
        The same columns without rows.
        """
    def is_at_live(self, /) -> bool:
        """
        Whether all of history has been returned.
        """
    @property
    def is_closed(self, /) -> bool: ...
    @property
    def is_over(self, /) -> bool:
        """
        Whether it is known that there is no batch left.
        """
    @property
    def live(self, /) -> bool:
        """
        Whether new messages follow, so that there is no last batch.
        """
    def next(self, /, timeout: SupportsFloat | SupportsIndex | None = None) -> Batch | None:
        """
        The next batch, waiting at most that many seconds.
        """
    def position(self, /) -> str | None:
        """
        The position behind the batch that was returned last; `None`: there is none while history is read by symbol.
        """
    def read_all(self, /, progress: Callable[[int], None] | None) -> Batches:
        """
        Reads all batches into memory. Ctrl-C ends it.
        """
    @property
    def rows(self, /) -> int:
        """
        Rows returned so far.
        """

@final
class Buffer:
    """
    Bytes that NumPy reads in place.
    """
    def __len__(self, /) -> int: ...

@final
class Cursor:
    """
    A cursor over one or several streams.
    """
    def __iter__(self, /) -> Cursor: ...
    def __next__(self, /) -> Message: ...
    def _fetch(self, /, timeout: SupportsFloat | SupportsIndex | None = None) -> bool:
        """
        Fetches ahead; `true` when the next call has something at once.
        """
    def _pop(self, /) -> Message | None:
        """
        A message that was fetched; `None`: there is none.
        """
    def close(self, /) -> None: ...
    @property
    def count(self, /) -> int:
        """
        Messages returned so far.
        """
    def fetch_many(self, /, count: SupportsIndex, timeout: SupportsFloat | SupportsIndex | None = None) -> list[Message]:
        """
        The next messages, up to `count`: waits for the first one alone.
        """
    def is_at_live(self, /) -> bool:
        """
        Whether all streams have reached the end of their history, and everything of it has been returned.
        """
    @property
    def is_closed(self, /) -> bool: ...
    @property
    def is_over(self, /) -> bool:
        """
        Whether reading has ended.
        """
    @property
    def live(self, /) -> bool:
        """
        Whether the cursor continues with new messages.
        """
    def next(self, /, timeout: SupportsFloat | SupportsIndex | None = None) -> Message | None:
        """
        The next message, waiting at most that many seconds.
        """
    def position(self, /) -> str:
        """
        The position behind the last message that was returned.
        """
    def seek(self, /, time: Any) -> None:
        """
        Continues at a time.
        """
    @property
    def streams(self, /) -> list[Any]: ...

@final
class Database:
    """
    An open database.
    """
    def backup(self, /, to: str, deleted: str, progress: Callable[[int], None] | None) -> dict[str, Any]:
        """
        Copies the database; calls `progress` with the bytes of each write.
        """
    def change_schema(self, /, name: str, schema: str, known: dict[str, Any]) -> Stream: ...
    def close(self, /) -> None: ...
    def create(self, /, name: str, schema: str, known: dict[str, Any], exist_ok: bool, options: dict[str, Any] | None) -> Stream: ...
    def cursor(self, /, streams: list[tuple[str, dict[str, type]]], selection: dict[str, Any]) -> Cursor:
        """
        A cursor over several streams, merged by time.
        """
    def delete(self, /, name: str) -> None: ...
    def has(self, /, name: str) -> bool:
        """
        Whether there is a stream of that name.
        """
    @property
    def is_closed(self, /) -> bool: ...
    @property
    def is_read_only(self, /) -> bool: ...
    @property
    def is_remote(self, /) -> bool: ...
    @property
    def path(self, /) -> str:
        """
        The directory or URL.
        """
    def rename(self, /, name: str, new: str) -> None: ...
    def server_status(self, /) -> str | None:
        """
        The status of the server as JSON; `None`: there is no server.
        """
    def sql(self, /, asked: dict[str, Any]) -> Batches:
        """
        Begins a query.
        """
    def stream(self, /, name: str, known: dict[str, Any]) -> Stream: ...
    def streams(self, /) -> list[str]: ...

@final
class Field:
    """
    A field of a record class.
    """
    def __get__(self, object: Any | None, _owner: Any | None = None, /) -> Any: ...
    def __new__(cls, /, index: SupportsIndex, name: str, doc: str) -> Field: ...
    def __repr__(self, /) -> str: ...
    def __set__(self, _object: Any, _value: Any, /) -> None: ...
    @property
    def name(self, /) -> str:
        """
        The name.
        """

@final
class Loader:
    """
    A loader of one stream.
    """
    def abandon(self, /) -> None:
        """
        Ends the loader without what waits.
        """
    def append(self, symbol: str, time: Any, record: Any | None = None, /, *, type: str | None = None, **fields: Any) -> None:
        """
        Appends one message.
        """
    def append_batches(self, /, table: Any, columns: dict[str, Any], whole: bool, progress: Callable[[int], None] | None) -> int:
        """
        Appends all rows of whatever has Arrow's stream interface, or of columns that were made of other things. Returns how many.

        `whole`: all rows are checked before the first of them is appended. A table's batches are in memory, and a reader's are kept
        until they are appended. Otherwise a batch is checked, appended and dropped before the next one is read.
        """
    def close(self, /) -> None:
        """
        Flushes and ends the loader. After an error it is still open.
        """
    @property
    def count(self, /) -> int:
        """
        Messages appended so far.
        """
    def discard(self, /) -> int:
        """
        Drops the messages that wait; returns how many.
        """
    def flush(self, /) -> int: ...
    @property
    def is_closed(self, /) -> bool: ...
    @property
    def pending(self, /) -> int:
        """
        Messages that are not acknowledged yet.
        """
    def send(self, /) -> None: ...

@disjoint_base
class Message(Record):
    """
    A message: the base of the classes of messages.

    Fields are attributes. `time` is in nanoseconds since 1970, UTC.
    """
    def __eq__(self, other: object, /) -> Any: ...
    def __hash__(self, /) -> int: ...
    def __new__(cls, /) -> Message: ...
    def __repr__(self, /) -> str: ...
    @property
    def datetime(self, /) -> Any:
        """
        The time as an aware `datetime`, UTC. It has microseconds: nanoseconds are cut off.
        """
    @property
    def sequence(self, /) -> int:
        """
        Number of the message in its space.
        """
    @property
    def space(self, /) -> int:
        """
        The space that the message was loaded into.
        """
    @property
    def stream(self, /) -> str:
        """
        Name of the stream, or of the topic.
        """
    @property
    def symbol(self, /) -> str:
        """
        The symbol.
        """
    @property
    def time(self, /) -> int:
        """
        Nanoseconds since 1970, UTC.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The message as a dictionary: type, time and symbol, then the fields.
        """
    def to_json(self, /) -> str:
        """
        The message as canonical JSON, as `tapedb read --output json` writes it.
        """

@final
class Publisher:
    """
    Publishes into a topic.
    """
    def close(self, /) -> None: ...
    @property
    def is_closed(self, /) -> bool: ...
    def publish(self, symbol: str, time: Any, record: Any | None = None, /, *, type: str | None = None, timeout: SupportsFloat | SupportsIndex | None = None, **fields: Any) -> int | None:
        """
        Publishes one message; returns its sequence number, or `None` when there was no space within `timeout` seconds.
        """

@disjoint_base
class Record:
    """
    A record: the base of the classes of nested records.
    """
    def __copy__(self, /) -> Record:
        """
        Records do not change: a copy is the record itself.
        """
    def __deepcopy__(self, /, _memo: Any) -> Record: ...
    def __eq__(self, other: object, /) -> Any: ...
    def __getattr__(self, name: str, /) -> Any: ...
    def __getitem__(self, name: str, /) -> Any:
        """
        The field of that name: for names that Python has for something else.
        """
    def __hash__(self, /) -> int: ...
    def __new__(cls, /) -> Record: ...
    def __repr__(self, /) -> str: ...
    def keys(self, /) -> tuple[Any, ...]:
        """
        Names of the fields.
        """
    def to_dict(self, /) -> dict[str, Any]:
        """
        The record as a dictionary, nested records as well.
        """
    def to_json(self, /) -> str:
        """
        The record as canonical JSON.
        """
    @property
    def type(self, /) -> str:
        """
        Name of the record type.
        """

@final
class Server:
    """
    A running server.
    """
    def close(self, /) -> None:
        """
        Shuts the server down in order.
        """
    @property
    def connections(self, /) -> int:
        """
        Connections at this moment.
        """
    @property
    def http(self, /) -> str | None:
        """
        Address of health, status and metrics.
        """
    @property
    def is_closed(self, /) -> bool: ...
    @property
    def unix_socket(self, /) -> str | None: ...
    @property
    def url(self, /) -> str | None:
        """
        The URL for clients on this machine.
        """

@final
class Stream:
    """
    A stream of an open database.
    """
    def alter(self, /, options: dict[str, Any]) -> None: ...
    def batches(self, /, selection: dict[str, Any], reading: dict[str, Any]) -> Batches:
        """
        Record batches of one record type.
        """
    def class_(self, /, record: str) -> type[Any] | None:
        """
        The class of a record type's messages.
        """
    def close(self, /) -> None: ...
    def compare_schema(self, /, schema: str) -> list[str]:
        """
        The effects of another schema, as sentences.
        """
    def count(self, /, selection: dict[str, Any], record: str) -> int:
        """
        Number of messages of one record type: of sealed history little is read.
        """
    @property
    def created(self, /) -> int: ...
    def cursor(self, /, selection: dict[str, Any]) -> Cursor: ...
    def delete(self, /, start: Any | None, end: Any | None, symbols: SupportsGetItem[int, str] | None) -> None: ...
    def describe(self, /) -> str: ...
    def fields(self, /, record: str) -> list[tuple[str, str, str, bool]] | None:
        """
        Fields of a record type: name, type, documentation, whether it may be null.
        """
    def loader(self, /, space: SupportsIndex, batch_bytes: SupportsIndex | None) -> Loader: ...
    def maintenance_failure(self, /) -> str | None: ...
    @property
    def messages(self, /) -> list[str]:
        """
        Names of the message types.
        """
    @property
    def name(self, /) -> str: ...
    @property
    def options(self, /) -> dict[str, Any]: ...
    def rename_symbol(self, /, old: str, new: str) -> None: ...
    @property
    def schema(self, /) -> str:
        """
        The schema's text.
        """
    def seal(self, /) -> int: ...
    def stats(self, /) -> dict[str, Any]: ...
    def symbols(self, /) -> list[str]: ...

@final
class Subscriber:
    """
    Reads a topic.
    """
    def __iter__(self, /) -> Subscriber: ...
    def __next__(self, /) -> Message: ...
    def close(self, /) -> None: ...
    @property
    def is_closed(self, /) -> bool: ...
    @property
    def missed(self, /) -> int:
        """
        Messages that were overwritten before they were read.
        """
    def next(self, /, timeout: SupportsFloat | SupportsIndex | None = None) -> Message | None:
        """
        The next message, waiting at most that many seconds.
        """
    @property
    def next_sequence(self, /) -> int:
        """
        Sequence number of the next message.
        """
    def touch(self, /) -> None:
        """
        States that the subscriber is alive though it reads nothing.
        """

@final
class Topic:
    """
    An open topic.
    """
    def check(self, /) -> None:
        """
        Fails when the topic was deleted or replaced.
        """
    def close(self, /) -> None: ...
    @property
    def name(self, /) -> str: ...
    @property
    def path(self, /) -> Path: ...
    def publisher(self, /, exclusive: bool) -> Publisher: ...
    @property
    def schema(self, /) -> str: ...
    def stats(self, /) -> dict[str, Any]:
        """
        Publishers and subscribers, each a dictionary.
        """
    def subscribe(self, /, *, symbols: SupportsGetItem[int, str] | None, types: SupportsGetItem[int, str] | None, oldest: bool, waiting: str, back_pressure: bool) -> Subscriber: ...

def batch_of_columns(columns: list[tuple[str, str, Any]]) -> Batch:
    """
    A record batch of columns, each `(name, kind, values)`: `kind` is a NumPy dtype whose bytes `values` has, `"list"`, or `"arrow"`.
    """

def check_schema(text: str) -> str:
    """
    The canonical text of a schema, which is checked.
    """

def collect(batches: Batches, progress: Callable[[int], None] | None) -> list[tuple[str, tuple[Any, ...]]]:
    """
    Reads all batches into columns: for each its name, then as `Batch.parts`.
    """

def delete_topic(name: str, folder: str | PathLike[str] | None, database: str | PathLike[str] | None) -> None:
    """
    Deletes a topic.
    """

def ending() -> None:
    """
    Called before the interpreter ends: daemon threads stay where they are, until the process has ended.
    """

def forked() -> None:
    """
    Called in each child after a fork.
    """

def format_time(nanos: SupportsIndex) -> str:
    """
    The ISO 8601 text of nanoseconds since 1970.
    """

def imported(is_main: bool) -> None:
    """
    Called when the package was imported, and in a child of a fork: whether the calling thread is Python's main thread.
    """

def list_topics(folder: str | PathLike[str] | None, database: str | PathLike[str] | None) -> list[str]:
    """
    Names of the topics of a folder.
    """

def nanos(value: Any) -> int:
    """
    Nanoseconds since 1970, UTC, of whatever TapeDB takes as a time.
    """

def open(place: str, *, mode: str, login: tuple[str | None, str] | None, connections: SupportsIndex, tls_roots: str | None, wait: SupportsFloat | SupportsIndex, reconnect_timeout: SupportsFloat | SupportsIndex, spin: SupportsFloat | SupportsIndex, on_connection: Callable[[str], None] | None) -> Database:
    """
    Opens a database: a directory, or the URL of a server.
    """

def open_topic(name: str, *, folder: str | PathLike[str] | None, database: str | PathLike[str] | None, schema: str | None, delivery: str, ring_bytes: SupportsIndex | None, symbols_bytes: SupportsIndex | None, stall: SupportsFloat | SupportsIndex | None, known: dict[str, Any]) -> Topic:
    """
    Opens a topic; creates it when a schema is given and there is none.
    """

def schema_of_arrow(schema: Any, name: str, ignored: SupportsGetItem[int, str]) -> str:
    """
    The schema text of a message type with the fields of an Arrow schema, but for `ignored` ones.
    """

def serve(path: str | PathLike[str], *, listen: str | None, http: str, unix_socket: str | PathLike[str] | None, users: str | PathLike[str] | None, config: str | None) -> Server:
    """
    Starts a server.
    """
