"""TapeDB records, replays and streams market data.

```python
import tapedb

db = tapedb.open("my.tapedb")
ticks = db.create("ticks", "message Tick { price: decimal64, size: u32 }")
with ticks.loader() as load:
    load.append("AIG", "2026-01-05T14:30", price="48.35", size=100)
for m in ticks.cursor(symbols=["AIG"]):
    print(m.time, m.symbol, m.price)
frame = ticks.table().to_polars()
```

Times are nanoseconds since 1970, UTC. Decimals of messages are exact.
"""

from __future__ import annotations

import atexit as _atexit
import os as _os
import threading as _threading

from . import _tapedb, types
from ._batches import BatchReader
from ._cursor import Cursor
from ._database import Database, open
from ._errors import (
    Busy,
    Closed,
    Damaged,
    Deleted,
    Denied,
    Disconnected,
    Error,
    Exists,
    Forked,
    InternalError,
    Invalid,
    Late,
    Missed,
    NotFound,
    Outdated,
    QueryError,
    ReadOnly,
    Refused,
    Rejected,
    Renamed,
    SchemaError,
    SchemaMismatch,
    Stale,
    StorageError,
    Unavailable,
)
from ._loader import Loader
from ._server import Server, serve
from ._sql import Query
from ._stream import Stats, Stream
from ._table import RecordBatch, Table
from ._tapedb import Message, Record, format_time, nanos
from ._times import to_datetime
from ._topic import Publisher, Subscriber, Topic, delete_topic, topic, topics

__version__: str = _tapedb.__version__

__all__ = [
    "BatchReader",
    "Busy",
    "Closed",
    "Cursor",
    "Damaged",
    "Database",
    "Deleted",
    "Denied",
    "Disconnected",
    "Error",
    "Exists",
    "Forked",
    "InternalError",
    "Invalid",
    "Late",
    "Loader",
    "Message",
    "Missed",
    "NotFound",
    "Outdated",
    "Publisher",
    "Query",
    "QueryError",
    "ReadOnly",
    "Record",
    "RecordBatch",
    "Refused",
    "Rejected",
    "Renamed",
    "SchemaError",
    "SchemaMismatch",
    "Server",
    "Stale",
    "Stats",
    "StorageError",
    "Stream",
    "Subscriber",
    "Table",
    "Topic",
    "Unavailable",
    "delete_topic",
    "format_time",
    "nanos",
    "open",
    "serve",
    "to_datetime",
    "topic",
    "topics",
    "types",
]

# Python handles signals on its main thread.
_tapedb.imported(_threading.current_thread() is _threading.main_thread())

# A child of a fork has none of the threads that its parent's objects rely on: they raise `Forked` there.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_tapedb.forked)

# Daemon threads that wait in the module stay there while the interpreter ends: it would end them in the middle of their work.
_atexit.register(_tapedb.ending)
