"""What the tests share: databases of their own, and a stream with a few messages."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest

import tapedb

# A shell starts what runs in its background with SIGINT ignored. Python and the programs that it starts keep that, and the
# tests of Ctrl-C would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DATA = os.environ.get("TAPEDB_DATA")

TICKS = "message Tick { price: decimal64, size: u32, venue: ascii(4)?, note: string? }"
START = 1_767_623_400_000_000_000  # 2026-01-05T14:30:00Z
# The command, built with SQL: `python/check` names it.
COMMAND = os.environ.get("TAPEDB_COMMAND")


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "db"


@pytest.fixture
def quick_path(path):
    """In memory where there is such a folder: opening a database waits for the disk, and a leak does not depend on it."""
    if not os.path.isdir("/dev/shm"):
        yield path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tapedb-test-") as folder:
        yield os.path.join(folder, "db")


@pytest.fixture
def db(path):
    with tapedb.open(path) as db:
        yield db


@pytest.fixture(scope="session")
def sql_server(tmp_path_factory):
    """A server that runs queries. In memory where there is such a folder: to make and delete streams waits for the disk."""
    if COMMAND is None:
        pytest.skip("TAPEDB_COMMAND does not name a command with SQL")
    in_memory = "/dev/shm" if os.path.isdir("/dev/shm") else tmp_path_factory.mktemp("sql")
    with tempfile.TemporaryDirectory(dir=in_memory, prefix="tapedb-test-") as folder:
        child = subprocess.Popen(
            [COMMAND, "server", "--db", os.path.join(folder, "db"), "--create", "--listen", "127.0.0.1:0", "--http", "off"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        try:
            yield next(word.rstrip(".,;") for line in child.stdout for word in line.split() if word.startswith("tape://"))
        finally:
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=30)


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


def needs_linux_for_topics(program):
    """Skips the test where its program uses topics and there are none."""
    if "topic" in program and sys.platform != "linux":
        pytest.skip("topics need Linux")


def run(script, *arguments, **options):
    """Runs a script in a Python of its own."""
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def assert_interrupted(script, path):
    """Runs a program that waits, sends Ctrl-C, and compares the time that it prints when the wait has ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n", child.communicate()
    time.sleep(0.3)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, error = child.communicate(timeout=60)
    assert child.returncode == 0, error
    # Both processes have the same clock. The bound is not that of the promise (200 ms), for test machines are busy: `bench/python`
    # measures it.
    assert float(out) - sent < 5
