"""Ends of calls, objects and interpreters: Ctrl-C inside long calls, handlers of signals, generators left half-read, exit, pickling."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import tapedb
from conftest import START, TICKS, assert_interrupted, fill, needs_linux_for_topics, run

LONG = int(os.environ.get("TAPEDB_LONG_ROWS", "3000000"))

# Long calls on a database in this process. Each is repeated until Ctrl-C comes; afterwards everything can be used.
LONG_CALLS = {
    "append_table": "load.append_table(columns)",
    "append_table lists": "load.append_table(lists)",
    "append_table pieces": "load.append_table(frame)",
    "to_numpy": "stream.table().to_numpy()",
    "batches": "list(stream.arrow())",
    "by symbol": "list(stream.arrow(order='symbol'))",
    "messages": "list(stream.cursor())",
    "no message": "list(stream.cursor(symbols=['NONE']))",
    "last": "stream.cursor(last=10**9)",
    "last_values": "stream.cursor(last_values=True)",
    "count": "stream.table(end=10**15).count()",
    "seal": "append(), stream.seal()",
}


@pytest.mark.parametrize("call", LONG_CALLS)
def test_ctrl_c_ends_a_long_call(path, call):
    pytest.importorskip("numpy")
    script = f"""
        import sys, time, numpy as np, tapedb
        db = tapedb.open(sys.argv[1])
        stream = db.create("bars", "message Bar {{ x: i64, y: f64, z: string? }}")
        rows = {LONG}
        columns = {{"time": np.arange(rows), "symbol": "A", "x": np.arange(rows), "y": np.arange(rows) / 2}}
        lists = {{name: values if isinstance(values, str) else values.tolist() for name, values in columns.items()}}
        frame = stream.table() if "pieces" not in {call!r} else None
        def append():
            with stream.loader() as load:
                load.append_table(columns)
        append()
        if frame is None:
            import pyarrow as pa
            frame = stream.table().to_arrow()
        cursor = stream.cursor()
        load = stream.loader()
        first = [m.x for m in cursor.take(1000)]
        print("ready", flush=True)
        try:
            while True:
                {LONG_CALLS[call]}
        except KeyboardInterrupt as error:
            print(time.monotonic(), flush=True)
            notes = getattr(error, "__notes__", [])
            assert all("rows were appended before" in note for note in notes), notes
        # What was interrupted goes on, and nothing is half a row.
        load.append("B", 1 << 60, x=7, y=1.5)
        load.close()
        assert first == list(range(1000)) and [m.x for m in cursor.take(1000)] == list(range(1000, 2000))
        (last,) = stream.cursor(last=1)
        assert (last.symbol, last.x) == ("B", 7)
        assert stream.table("Bar", []).count() == stream.stats().messages
        db.close()
    """
    assert_interrupted(script, path)


def test_a_reader_of_arrow_batches_ends_early_and_is_whole(ticks):
    """A consumer of a stream of batches may stop at any of them."""
    pa = pytest.importorskip("pyarrow")
    reader = pa.RecordBatchReader.from_stream(ticks.table())
    reader.read_next_batch()
    del reader
    gc.collect()
    reader = pa.RecordBatchReader.from_stream(ticks.table())
    ticks._db.close()
    # What was handed over belongs to its consumer; it ends, or has an error, and does not crash.
    try:
        assert reader.read_all().num_rows == 100
    except pa.ArrowException as error:
        assert str(error)


def test_generators_left_half_read(db, ticks):
    pytest.importorskip("numpy")
    files = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for _ in range(200):
        next(iter(ticks.table().batches()))
        next(ticks.columns())
        next(iter(ticks))
        next(iter(ticks.table()))
    gc.collect()
    if files:
        assert len(os.listdir("/proc/self/fd")) <= files + 2
    generator = ticks.columns()
    next(generator)
    db.close()
    with pytest.raises((tapedb.Closed, StopIteration)):
        next(generator)


def test_a_stream_that_is_deleted_while_it_is_read(any_db):
    pytest.importorskip("numpy")
    stream = fill(any_db.create("ticks", TICKS), 20_000)
    stream.seal()
    cursor, batches, table = stream.cursor(), stream.arrow(rows=100), stream.table()
    next(cursor), next(batches)
    any_db.delete("ticks")
    for call in (lambda: list(cursor), lambda: list(batches), table.to_numpy, stream.stats, stream.loader, stream.seal, stream.symbols, table.count):
        try:
            call()
        except tapedb.Deleted as error:
            assert error.stream == "ticks"
    again = fill(any_db.create("ticks", TICKS), 3)
    assert [m.size for m in again.cursor()] == [0, 1, 2]


HANDLERS = {
    "closes": "cursor.close()",
    "closes all": "db.close()",
    "position": "seen.append(cursor.position())",
    "next": "seen.append(cursor.next(0))",
    "other": "seen.append(len(list(stream.cursor())))",
    "append": "stream.loader().append('A', 1, x=1)",
    "raises": "raise RuntimeError('of the handler')",
    "nothing": "pass",
}


@pytest.mark.parametrize("kind", ["cursor", "batches", "remote"])
@pytest.mark.parametrize("handler", HANDLERS)
def test_handlers_of_signals_use_what_they_interrupt(path, handler, kind):
    """No deadlock, whatever a handler does: the call ends with what it raised, with `Closed`, or goes on."""
    done = run(
        f"""
        import os, signal, sys, threading, time, tapedb
        server = tapedb.serve(sys.argv[1]) if {kind!r} == "remote" else None
        db = tapedb.open(server.url if server else sys.argv[1])
        stream = db.create("ticks", "message Tick {{ x: u8 }}")
        cursor = stream.arrow(live=True) if {kind!r} == "batches" else stream.cursor(live=True)
        seen = []
        def handle(*_):
            seen.append("called")
            {HANDLERS[handler]}
        signal.signal(signal.SIGUSR1, handle)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        begun = time.monotonic()
        try:
            found = cursor.next(2)
        except (tapedb.Error, RuntimeError) as error:
            found = type(error).__name__
        assert time.monotonic() - begun < 20 and "called" in seen
        print(found, len(seen))
        try:
            db.close()
        finally:
            if server:
                server.close()
        """,
        path,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    expected = {"closes": ("Closed",), "closes all": ("Closed",), "raises": ("RuntimeError",)}.get(handler, ("None", "Tick", "Error", "RecordBatch", "Closed"))
    assert done.stdout.split()[0].split("(")[0] in expected, done.stdout


def test_handlers_during_a_long_call(path):
    """A handler that uses the loader, or closes the reader, in the middle of its work."""
    pytest.importorskip("numpy")
    done = run(
        f"""
        import os, signal, sys, threading, numpy as np, tapedb
        db = tapedb.open(sys.argv[1])
        stream = db.create("bars", "message Bar {{ x: i64 }}")
        rows = {LONG}
        load = stream.loader()
        seen = []
        def use(*_):
            for call in (lambda: load.append("B", 1, x=1), load.close, lambda: load.pending, lambda: cursor.next(0), cursor.close):
                try:
                    seen.append(call())
                except tapedb.Error as error:
                    assert "in use" in str(error) or isinstance(error, tapedb.Closed), error
                    seen.append(error)
        cursor = stream.cursor()
        signal.signal(signal.SIGUSR1, use)
        stop = threading.Event()
        def disturb():
            while not stop.wait(0.02):
                os.kill(os.getpid(), signal.SIGUSR1)
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for number in range(3):
                try:
                    load.append_table({{"time": np.arange(rows), "symbol": "A", "x": np.arange(rows)}})
                    stream.seal()
                    list(stream.arrow())
                    list(cursor)
                except tapedb.Closed:
                    load, cursor = stream.loader(), stream.cursor()
        finally:
            stop.set()
            thread.join()
        assert seen
        db.close()
        """,
        path,
    )
    assert done.returncode == 0, done.stderr


EXITS = {
    "live cursor": "cursor = stream.cursor(live=True); cursor.next(0)",
    "cursor of a daemon thread": "threading.Thread(target=lambda: list(stream.cursor(live=True)), daemon=True).start(); time.sleep(0.2)",
    "batches of a daemon thread": "threading.Thread(target=lambda: list(stream.arrow(live=True, every=60)), daemon=True).start(); time.sleep(0.2)",
    "busy daemon threads": "[threading.Thread(target=busy, daemon=True).start() for _ in range(4)]; time.sleep(0.3)",
    "loading daemon thread": "threading.Thread(target=loading, daemon=True).start(); time.sleep(0.3)",
    "loader with messages": "load = stream.loader(); load.append('A', 1, x=1)",
    "in a cycle": "class C: pass\nc = C(); c.c = c; c.db = db; c.cursor = stream.cursor(); c.load = stream.loader(); c.load.append('A', 1, x=1)",
    "generator": "g = stream.columns(); next(g)",
    "exception": "cursor = stream.cursor(live=True); raise SystemExit(3)",
    "server": "server = tapedb.serve(sys.argv[1] + '2'); other = tapedb.open(server.url); other.create('x', 'message X { }').cursor(live=True).next(0)",
    "server and daemon thread": "server = tapedb.serve(sys.argv[1] + '2'); other = tapedb.open(server.url); s = other.create('x', 'message X { }'); threading.Thread(target=lambda: list(s.cursor(live=True)), daemon=True).start(); time.sleep(0.2)",
    "atexit": "import atexit; atexit.register(lambda: print(len(list(stream.cursor()))))",
    "messages": "kept = list(stream.cursor()); record = kept[0]",
    "async": "import asyncio\nasync def main():\n    task = asyncio.create_task(stream.cursor(live=True, history=False).anext())\n    await asyncio.sleep(0.1)\n    task.cancel()\nasyncio.run(main())",
    "topic": "topic = db.topic('t', 'message T { x: u8 }'); sub = topic.subscribe(); threading.Thread(target=lambda: list(sub), daemon=True).start(); time.sleep(0.2); topic.publish('A', 1, x=1)",
    "closing thread": "threading.Thread(target=lambda: (time.sleep(0.1), db.close())).start()",
    "delete module": "del sys.modules['tapedb'], sys.modules['tapedb._tapedb'], tapedb; gc.collect()",
}


@pytest.mark.parametrize("end", EXITS)
def test_the_interpreter_ends_whatever_is_open(path, end):
    needs_linux_for_topics(EXITS[end])
    if end == "generator":
        pytest.importorskip("numpy")
    script = """
import gc, sys, threading, time, tapedb
db = tapedb.open(sys.argv[1])
stream = db.create("ticks", "message Tick { x: u8 }")
with stream.loader() as first:
    for i in range(5000):
        first.append("A", i, x=i % 256)
def busy():
    while True:
        list(stream.cursor())
        [len(batch) for batch in stream.arrow()]
def loading():
    with stream.loader() as load:
        while True:
            load.append("A", 1, x=1)
            load.flush()
"""
    done = run(script + EXITS[end], path)
    assert done.returncode == (3 if end == "exception" else 0), (done.returncode, done.stderr)
    assert "Fatal" not in done.stderr and "panicked" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    with tapedb.open(path) as db:
        assert db["ticks"].stats().messages >= 5000


def test_other_interpreters_of_the_process_get_a_clear_error(path):
    script = """
try:
    import _interpreters as interpreters
    create, run = interpreters.create, lambda i, code: interpreters.exec(i, code)
except ImportError:
    import _xxsubinterpreters as interpreters
    create, run = interpreters.create, interpreters.run_string
import tapedb
code = '''
try:
    import tapedb
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    tapedb.nanos(1)
'''
found = run(create(), code)
assert found is None, found
tapedb.nanos(1)
print("done")
"""
    done = run(script, path)
    if "No module named" in done.stderr:
        pytest.skip("this Python has no other interpreters")
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def test_nothing_can_be_pickled_and_says_so(db, ticks):
    pytest.importorskip("numpy")
    batch = next(iter(ticks.table()))
    for value in (db, ticks, ticks.cursor(), ticks.loader(), ticks.table(), ticks.arrow(), batch):
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="belongs to its process"):
                call(value)
    (m, *_) = ticks.cursor()
    with pytest.raises(TypeError, match="cannot be pickled.*to_dict"):
        pickle.dumps(m)
    assert pickle.loads(pickle.dumps(m.to_dict())) == m.to_dict()
    assert pickle.loads(pickle.dumps(ticks.stats())) == ticks.stats()
    for error in (pytest.raises(tapedb.NotFound, lambda: db["nothing"]).value, pytest.raises(tapedb.Invalid, lambda: ticks.delete()).value):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)


def test_exceptions_through_a_pool_of_processes(path):
    """What another process raises arrives with its attributes."""
    done = run(
        """
        import concurrent.futures, multiprocessing, sys, tapedb
        def work(path):
            with tapedb.open(path, "r") as db:
                return db["nothing"]
        if __name__ == "__main__":
            tapedb.open(sys.argv[1]).close()
            context = multiprocessing.get_context("fork")
            with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
                try:
                    pool.submit(work, sys.argv[1]).result(30)
                except tapedb.NotFound as error:
                    print(error.what, error.name)
        """,
        path,
    )
    assert done.stdout.strip() == "stream nothing", done.stderr


def test_many_threads_on_everything(db):
    """Readers, loaders, closers and deleters at once: each call returns, or raises an error of its own."""
    pytest.importorskip("numpy")
    stop, unexpected = threading.Event(), []

    def work(number):
        count = 0
        while not stop.is_set():
            count += 1
            name = f"s{(number + count) % 3}"
            try:
                stream = db.create(name, TICKS, exist_ok=True)
                match (number + count) % 7:
                    case 0:
                        fill(stream, 300)
                    case 1:
                        sum(1 for _ in stream.cursor())
                    case 2:
                        stream.table().to_numpy()
                    case 3:
                        stream.seal()
                    case 4:
                        db.delete(name)
                    case 5:
                        cursor = stream.cursor(live=True)
                        threading.Timer(0.01, cursor.close).start()
                        cursor.next(1)
                    case 6:
                        stream.stats(), stream.symbols(), repr(stream), stream.alter(keep_for=10**9)
            except tapedb.InternalError as error:
                unexpected.append(error)
            except tapedb.Error:
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert unexpected == []


def test_closing_from_another_thread_ends_every_call(path):
    pytest.importorskip("numpy")
    db = tapedb.open(path)
    stream = fill(db.create("ticks", TICKS), 1000)
    other = db.create("other", TICKS)
    calls = [
        lambda: list(stream.cursor(live=True)), lambda: list(stream.arrow(live=True)), lambda: stream.cursor(live=True, history=False).next(),
        lambda: [list(stream.cursor()) for _ in range(1 << 40)], lambda: [stream.stats() for _ in range(1 << 40)],
        lambda: [load.append("A", START + 10**15, price=1, size=1) for load in [other.loader()] for _ in range(1 << 40)],
    ]
    ended = []

    def work(call):
        try:
            call()
        except tapedb.Closed as error:
            ended.append(error)

    threads = [threading.Thread(target=work, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    db.close()
    for thread in threads:
        thread.join(30)
    assert len(ended) == len(calls)


def test_closing_while_others_open(quick_path):
    """What is opened while the database is being closed is closed too, or is an error; then another process may open it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(8):
            db = tapedb.open(quick_path)
            stream = db.create("ticks", TICKS, exist_ok=True)
            opened, unexpected = [], []

            def work():
                try:
                    while True:
                        opened.append(stream.cursor())
                        opened.append(stream.loader())
                except tapedb.Closed:
                    pass
                except BaseException as error:
                    unexpected.append(error)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            while len(opened) < 30:
                time.sleep(0.001)
            db.close()
            for thread in threads:
                thread.join(30)
            assert unexpected == [] and all(child.closed for child in opened)
            tapedb.open(quick_path).close()
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_killed_writer_leaves_what_it_flushed(path):
    script = """
import sys, tapedb
db = tapedb.open(sys.argv[1])
stream = db.create("ticks", "message Tick { x: u64 }")
load = stream.loader()
for i in range(1 << 40):
    load.append("A", i, x=i)
    if i % 1000 == 999:
        print(load.flush(), flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script), str(path)], stdout=subprocess.PIPE, text=True)
    flushed = 0
    for _ in range(20):
        flushed = int(child.stdout.readline())
    child.kill()
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    flushed = int(rest[-1]) if rest and rest[-1].isdigit() else flushed
    with tapedb.open(path) as db:
        found = [m.x for m in db["ticks"].cursor()]
    assert found == list(range(len(found))) and len(found) >= flushed - 1000
