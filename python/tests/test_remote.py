"""Databases behind a server."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

import tapedb
from conftest import TICKS, fill


def test_urls(path, tmp_path):
    with tapedb.serve(path, unix_socket=tmp_path / "socket") as server:
        for url in (server.url, f"tape+unix://{server.unix_socket}", f"tape+shm://{server.unix_socket}"):
            with tapedb.open(url) as db:
                name = f"ticks{len(db.streams())}"
                stream = fill(db.create(name, TICKS))
                assert [m.size for m in stream.cursor()] == list(range(100))
                assert stream.stats().messages == 100 and db.status()["streams"] if db.status() else True
        with pytest.raises(tapedb.Busy) as caught:
            tapedb.open(path)
        assert caught.value.server == server.url
        with tapedb.open(path, "r") as db:
            assert len(db.streams()) == 3
    with pytest.raises(tapedb.Disconnected) as caught:
        tapedb.open(server.url)
    assert caught.value.place.startswith(server.url) or server.url in str(caught.value)


def test_credentials(path, tmp_path, monkeypatch):
    for name in ("TAPEDB_PASSWORD", "TAPEDB_TOKEN", "TAPEDB_USER"):
        monkeypatch.delenv(name, raising=False)
    users = tmp_path / "users.toml"
    users.write_text("")
    with tapedb.serve(path, users=users) as server:
        with pytest.raises(tapedb.Refused):
            tapedb.open(server.url)
        with pytest.raises(tapedb.Refused):
            tapedb.open(server.url, user="ann", password="wrong")
        with pytest.raises(tapedb.Refused):
            tapedb.open(server.url, token="wrong")
    with pytest.raises(tapedb.Invalid, match="without a user"):
        tapedb.open("tape://127.0.0.1:9", password="x")
    with pytest.raises(tapedb.Invalid):
        tapedb.serve(path, no_such_setting=1)


SERVER = """
    import sys, time, tapedb
    server = tapedb.serve(sys.argv[1], sys.argv[2])
    print(server.url, flush=True)
    time.sleep(600)
"""


class Process:
    """A server in a process of its own, to be killed."""

    def __init__(self, path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.path = path
        self.start()

    def start(self):
        command = [sys.executable, "-c", textwrap.dedent(SERVER), str(self.path), self.address]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().startswith("tape://")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_killed_server_loses_and_repeats_nothing(path):
    """A client reads and loads while its server is killed again and again."""
    server, events = Process(path), []
    try:
        with tapedb.open(f"tape://{server.address}", on_connection=events.append, reconnect_timeout=60) as db:
            stream = db.create("ticks", TICKS)
            cursor, seen = stream.cursor(live=True), []
            loader = stream.loader()
            for round in range(4):
                for i in range(500):
                    loader.append("A", round * 500 + i, price=i, size=round * 500 + i)
                    if i == 250 and round:
                        loader.flush()
                        server.kill()
                        server.start()
                loader.flush()
                deadline = time.monotonic() + 60
                while len(seen) < (round + 1) * 500 and time.monotonic() < deadline:
                    seen += [m.size for m in cursor.take(1000, 1)]
            loader.close()
            assert seen == list(range(2000))
            assert [m.size for m in stream.cursor()] == list(range(2000))
            assert any("is lost" in event for event in events) and any("again, after" in event for event in events)
    finally:
        server.kill()


def test_a_server_that_does_not_come_back(path):
    with tapedb.serve(path) as server:
        db = tapedb.open(server.url, reconnect_timeout=0.2)
        stream = fill(db.create("ticks", TICKS))
        loader = stream.loader()
        loader.append("A", 1, price=1, size=1)
    with pytest.raises(tapedb.Disconnected):
        loader.flush()
    with pytest.raises(tapedb.Disconnected):
        stream.stats()
    assert isinstance(pytest.raises(ConnectionError, stream.stats).value, tapedb.Error)
    assert loader.pending == 1
    loader.discard()
    try:
        db.close()
    except tapedb.Disconnected:
        pass
    assert os.path.isdir(path)


def test_the_same_errors_as_here(path):
    """A remote error has the class and text that it has in this process."""
    texts = []
    for remote in (False, True):
        place = path.with_name(f"db{remote}")
        server = tapedb.serve(place) if remote else None
        with tapedb.open(server.url if server else place) as db:
            db.create("ticks", TICKS)
            for call in (
                lambda: db["nothing"],
                lambda: db.create("ticks", TICKS),
                lambda: db.create("", TICKS),
                lambda: db.create("x", "message Tick { x: u7 }"),
                lambda: db.delete("nothing"),
                lambda: db["ticks"].rename_symbol("A", "B"),
            ):
                with pytest.raises(tapedb.Error) as caught:
                    call()
                texts.append((remote, type(caught.value).__name__, str(caught.value)))
        if server:
            server.close()
    assert [text[1:] for text in texts if not text[0]] == [text[1:] for text in texts if text[0]]
