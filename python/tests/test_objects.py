"""Objects that are closed, used by several threads, taken through a fork, deleted, interrupted."""

import copy
import gc
import os
import signal
import threading
import time

import pytest

import tapedb
from conftest import START, TICKS, assert_interrupted, fill, needs_linux_for_topics, run


def test_closed_objects_say_so(path):
    db = tapedb.open(path)
    stream = fill(db.create("ticks", TICKS))
    cursor, loader, table = stream.cursor(), stream.loader(), stream.table()
    next(cursor)
    loader.append("A", START, price=1, size=1)
    reader = iter(table)
    next(reader)
    db.close()
    db.close()
    assert db.closed and cursor.closed and loader.closed
    for call in (
        db.streams, lambda: db.stream("ticks"), stream.stats, stream.cursor, stream.loader, cursor.next, cursor.position,
        lambda: next(cursor), lambda: list(cursor), lambda: loader.append("A", 1, price=1, size=1), loader.flush,
        lambda: next(reader), table.to_numpy, lambda: "ticks" in db,
    ):
        with pytest.raises(tapedb.Closed, match="is closed"):
            call()
    # Closing flushed the loader, and released the directory.
    with tapedb.open(path) as again:
        assert again["ticks"].stats().messages == 101


def test_a_database_has_one_writer(path):
    with tapedb.open(path) as db:
        fill(db.create("ticks", TICKS))
        with pytest.raises(tapedb.Busy) as caught:
            tapedb.open(path)
        assert caught.value.path == str(path) and caught.value.server is None
        with tapedb.open(path, "r") as reader:
            assert reader.read_only and reader["ticks"].stats().messages == 100
            with pytest.raises(tapedb.ReadOnly):
                reader["ticks"].loader()
            with pytest.raises(tapedb.ReadOnly):
                reader.create("b", TICKS)


def test_what_is_not_there(tmp_path, db):
    for mode in ("r", "r+"):
        with pytest.raises(tapedb.NotFound) as caught:
            tapedb.open(tmp_path / "nothing", mode)
        assert caught.value.what == "database"
    assert not (tmp_path / "nothing").exists()
    fill(db.create("ticks", TICKS))
    with pytest.raises(tapedb.NotFound) as caught:
        db["tics"]
    assert (caught.value.what, caught.value.name, caught.value.known) == ("stream", "tics", ["ticks"])
    with pytest.raises(LookupError):
        db["tics"]
    with pytest.raises(tapedb.Exists):
        db.create("ticks", TICKS)
    with pytest.raises(tapedb.SchemaError):
        db.create("ticks", "message Other { x: u8 }", exist_ok=True)
    with pytest.raises(tapedb.Invalid, match="mode"):
        tapedb.open(tmp_path, "a")
    with pytest.raises(tapedb.Invalid):
        tapedb.open("tape://")


def test_a_deleted_stream(db, ticks):
    cursor, loader = ticks.cursor(live=True), ticks.loader()
    assert len(cursor.take(100)) == 100
    loader.append("A", START, price=1, size=1)
    db.delete("ticks")
    with pytest.raises(tapedb.Deleted) as caught:
        cursor.next(1)
    assert caught.value.stream == "ticks"
    with pytest.raises(tapedb.Deleted):
        loader.flush()
    loader.discard()
    loader.close()
    with pytest.raises(tapedb.Deleted):
        ticks.cursor()


def test_a_cursor_of_several_threads_returns_each_message_once(db):
    stream = fill(db.create("ticks", TICKS), 5000)
    cursor, seen = stream.cursor(), []

    def read():
        for m in cursor:
            seen.append(m.size)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(5000))


def test_a_loader_of_several_threads(db):
    stream = db.create("ticks", TICKS)

    def write(symbol):
        for i in range(2000):
            load.append(symbol, i, price=i, size=i)

    with stream.loader(batch_bytes=1024) as load:
        threads = [threading.Thread(target=write, args=(symbol,)) for symbol in "ABCD"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for symbol in "ABCD":
        assert [m.size for m in stream.cursor(symbols=symbol)] == list(range(2000))


def test_a_wait_ends_when_the_cursor_is_closed(ticks):
    cursor, caught = ticks.cursor(live=True, history=False), []

    def wait():
        try:
            cursor.next()
        except tapedb.Closed as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    cursor.close()
    thread.join(10)
    assert not thread.is_alive() and len(caught) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_is_a_clear_error(path):
    done = run(
        """
        import os, sys, warnings, tapedb
        warnings.simplefilter("ignore")
        db = tapedb.open(sys.argv[1])
        stream = db.create("ticks", "message Tick { x: u8 }")
        load, cursor = stream.loader(), stream.cursor(live=True)
        load.append("A", 1, x=1)
        child = os.fork()
        if child == 0:
            for call in (db.streams, stream.stats, lambda: load.append("A", 2, x=2), load.flush, lambda: cursor.next(0), stream.table().to_numpy):
                try:
                    call()
                    os._exit(1)
                except tapedb.Forked as error:
                    if "before a fork" not in str(error):
                        os._exit(2)
            db.close()
            del load, cursor, stream, db
            # Its own objects work: to read, beside the parent, which writes.
            with tapedb.open(sys.argv[1], "r") as own:
                assert own.streams() == ["ticks"]
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        load.close()
        assert [m.x for m in stream.cursor()] == [1], "the child must not flush the parent's messages"
        db.close()
        print(os.waitstatus_to_exitcode(status))
        """,
        path,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


WAITS = {
    "cursor": "list(stream.cursor(live=True))",
    "next": "stream.cursor(live=True, history=False).next(60)",
    "batches": "list(stream.arrow(live=True, every=60))",
    "batch": "stream.arrow(live=True, history=False).next(60)",
    "columns": "duckdb_like(stream.arrow(live=True, history=False))",
    "connect": "tapedb.open('tape://127.0.0.1:9', wait=60)",
    "topic": "next(tapedb.topic('t', 'message T { x: u8 }', folder=sys.argv[1] + '-topics').subscribe())",
    "publish": "publish(tapedb.topic('t', 'message T { x: u8 }', folder=sys.argv[1] + '-topics', ring_bytes=1 << 16, stall=3600))",
    "another thread": "behind_another_thread(stream.arrow(live=True, history=False))",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(path, wait):
    needs_linux_for_topics(WAITS[wait])
    script = f"""
        import sys, threading, time, tapedb

        def publish(topic):
            slow = topic.subscribe()
            while True:
                topic.publish("A", 1, x=1)

        def behind_another_thread(reader):
            threading.Thread(target=lambda: reader.next(2), daemon=True).start()
            reader.next(60)

        def duckdb_like(reader):
            while True:
                reader.next(60)

        db = tapedb.open(sys.argv[1])
        stream = db.create("ticks", "message Tick {{ x: u8 }}")
        print("ready", flush=True)
        try:
            {WAITS[wait]}
        except KeyboardInterrupt:
            print(time.monotonic())
        # What was interrupted can be used further.
        with stream.loader() as load:
            load.append("A", 1, x=1)
        assert len(list(stream.cursor())) == 1
        db.close()
    """
    assert_interrupted(script, path)


# With a server that is stopped, or killed: what waits for its answer, and for another connection.
REMOTE_WAITS = {
    "stats": "stream.stats()",
    "streams": "db.streams()",
    "symbols": "stream.symbols()",
    "create": "db.create('other', 'message Tick { x: u8 }')",
    "delete": "stream.delete(start=0)",
    "seal": "stream.seal()",
    "history": "list(stream.cursor())",
    "batches": "list(stream.arrow())",
    "polars": "stream.table().to_numpy()",
    "live": "list(cursor)",
    "flush": "load.append('A', 2, x=2), load.flush()",
    "append": "[load.append('A', i, x=2) for i in range(1 << 62)]",
    "table": "[load.append_table(table) for i in range(1 << 62)]",
}


@pytest.mark.parametrize("signal_of_server", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
@pytest.mark.parametrize("wait", REMOTE_WAITS)
def test_ctrl_c_ends_a_wait_for_a_server(path, wait, signal_of_server):
    script = f"""
        import os, signal, subprocess, sys, time, tapedb
        serving = "import sys, tapedb; s = tapedb.serve(sys.argv[1]); print(s.url, flush=True); sys.stdin.read()"
        server = subprocess.Popen([sys.executable, "-c", serving, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        db = tapedb.open(server.stdout.readline().strip(), reconnect_timeout=600)
        stream = db.create("ticks", "message Tick {{ x: u8 }}")
        table = {{"time": list(range(10_000)), "symbol": ["A"] * 10_000, "x": [1] * 10_000}}
        load = stream.loader()
        load.append_table(table)
        load.flush()
        cursor = stream.cursor(live=True)
        next(cursor)
        server.send_signal({int(signal_of_server)})
        print("ready", flush=True)
        try:
            while True:
                try:
                    {REMOTE_WAITS[wait]}
                except tapedb.Disconnected:
                    # The connection broke before the answer came: the next attempt waits for another one.
                    pass
        except KeyboardInterrupt:
            print(time.monotonic(), flush=True)
        server.send_signal({int(signal.SIGCONT)})
        if {signal_of_server == signal.SIGSTOP}:
            # The interrupted objects can be used further, and nothing is lost.
            load.append("B", 1 << 62, x=7)
            load.flush()
            symbols = [m.symbol for m in iter(lambda: cursor.next(1), None)]
            assert symbols[-1] == "B" and cursor.count == stream.stats().messages, (cursor.count, stream.stats())
        server.kill()
        os._exit(0)
    """
    assert_interrupted(script, path)


def test_notebooks_show_closed_objects(path):
    pytest.importorskip("numpy")
    db = tapedb.open(path)
    stream = fill(db.create("ticks", TICKS))
    table = stream.table()
    assert "<table>" in db._repr_html_() and "<table>" in stream._repr_html_() and "<table>" in table._repr_html_()
    db.close()
    for closed in (db, stream, table):
        assert "closed" in closed._repr_html_() and repr(closed)
    assert "closed" in repr(table)


def test_copies_of_messages_are_the_messages(ticks):
    messages = ticks.cursor().take(3)
    assert copy.copy(messages[0]) is messages[0] and copy.deepcopy(messages) == messages


def test_ctrl_c_loses_no_message(ticks):
    cursor = ticks.cursor(live=True)
    seen = [m.size for m in cursor.take(60)]
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        for m in cursor:
            seen.append(m.size)
    fill(ticks, 3)
    seen += [m.size for m in cursor.take(10, 5)]
    assert seen == [*range(100), 0, 1, 2]


ROUNDS = int(os.environ.get("TAPEDB_LEAK_ROUNDS", "10000"))


def assert_nothing_leaks(once, rounds=ROUNDS):
    """The memory, files and threads after many rounds are those after a tenth of them."""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("the system does not state the memory of a process")

    def held():
        gc.collect()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    for _ in range(rounds // 10):
        once()
    bytes, files, threads = held()
    for _ in range(rounds):
        once()
    bytes_after, files_after, threads_after = held()
    assert bytes_after - bytes < 8 << 20
    # A thread that ends is listed until the system has taken it away.
    assert files_after == files and threads_after <= threads + 1


def test_cursors_and_loaders_do_not_leak(ticks):
    def once():
        with ticks.cursor() as cursor, ticks.loader(), ticks.arrow(rows=10) as batches:
            next(cursor), next(batches)

    assert_nothing_leaks(once)


def test_databases_do_not_leak(quick_path):
    def once():
        with tapedb.open(quick_path) as db:
            next(db["ticks"].cursor())

    with tapedb.open(quick_path) as db:
        fill(db.create("ticks", TICKS))
    assert_nothing_leaks(once)


def test_connections_do_not_leak(quick_path):
    def once():
        with tapedb.open(server.url) as db:
            next(db["ticks"].cursor())

    with tapedb.serve(quick_path) as server:
        with tapedb.open(server.url) as db:
            fill(db.create("ticks", TICKS))
        assert_nothing_leaks(once, ROUNDS // 10)
