"""What the tests share: databases of their own, and a stream with a few messages."""

from __future__ import annotations

import os
import pathlib
import signal

import pytest

import tapedb

# A shell starts what runs in its background with SIGINT ignored. Python and the programs that it starts keep that, and the
# tests of Ctrl-C would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = os.environ.get("TAPEDB_DATA")

TICKS = "message Tick { price: decimal64, size: u32, venue: ascii(4)?, note: string? }"
START = 1_767_623_400_000_000_000  # 2026-01-05T14:30:00Z


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "db"


@pytest.fixture
def db(path):
    with tapedb.open(path) as db:
        yield db


@pytest.fixture(params=["local", "remote"])
def any_db(request, path):
    """The same database in this process, and behind a server."""
    if request.param == "local":
        with tapedb.open(path) as db:
            yield db
        return
    with tapedb.serve(path) as server, tapedb.open(server.url) as db:
        yield db


@pytest.fixture
def ticks(db):
    return fill(db.create("ticks", TICKS))


def fill(stream, count=100, symbols=("AIG", "BAC", "C")):
    """Appends `count` ticks, one a second, in turn for each symbol."""
    with stream.loader() as load:
        for i in range(count):
            load.append(symbols[i % len(symbols)], START + i * 1_000_000_000, price=f"48.{i:02}", size=i, venue="X" if i % 2 else None)
    return stream
