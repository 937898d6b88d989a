"""Live cursors: history, then what arrives."""

import asyncio
import threading

import pytest

import tapedb
from conftest import START, TICKS, fill


def test_history_then_live(any_db):
    stream = fill(any_db.create("ticks", TICKS))
    cursor = stream.cursor(live=True, start=START + 90 * 10**9)
    assert [m.size for m in cursor.take(100)] == list(range(90, 100))
    assert cursor.next(0) is None and cursor.next(0.01) is None and cursor.live and not cursor.ended and cursor.caught_up
    with stream.loader() as load:
        load.append("X", START + 200 * 10**9, price=1, size=1000)
        load.append("X", START, price=1, size=1001)
    assert cursor.next(10).size == 1000
    position = cursor.position()
    fill(stream, 1)
    # Live messages come in order of arrival; the filter of times applies to them too.
    assert cursor.next(0) is None
    assert stream.cursor(resume=position, start=START + 90 * 10**9).next() is None
    assert [m.size for m in stream.cursor(live=True, resume=position).take(10, 10)] == [1001, 0]


def test_only_new_messages(db, ticks):
    cursor = ticks.cursor(live=True, history=False)
    assert cursor.next(0) is None
    fill(ticks, 3)
    assert [m.sequence for m in cursor.take(10, 10)] == [100, 101, 102]


def test_streams_are_merged_by_time(any_db):
    a, b = fill(any_db.create("a", TICKS), 50), fill(any_db.create("b", TICKS), 50)
    both = [(m.stream, m.size) for m in any_db.cursor(["a", "b"])]
    assert both == [(name, i) for i in range(50) for name in ("a", "b")]
    cursor = any_db.cursor(["b", "a"], live=True)
    assert len(cursor.take(75)) == 75
    rest = any_db.cursor(["b", "a"], live=True, resume=cursor.position())
    assert [(m.stream, m.size) for m in rest.take(100)][:2] == [("a", 37), ("b", 38)]
    fill(a, 1)
    fill(b, 1)
    assert sorted(m.stream for m in (rest.next(10), rest.next(10))) == ["a", "b"]
    with pytest.raises(tapedb.NotFound):
        any_db.cursor(["a", "c"])


def test_async_iteration(db, ticks):
    async def main():
        history = [m.size async for m in ticks.cursor()]
        assert history == list(range(100))
        cursor, seen = ticks.cursor(live=True), []

        async def read():
            async for m in cursor:
                seen.append(m.size)
                if m.size == 999:
                    return

        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        with ticks.loader() as load:
            load.append("A", START, price=1, size=999)
        await asyncio.wait_for(task, 30)
        assert seen == [*range(100), 999]
        # A cancelled wait loses nothing.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(cursor.anext(), 0.05)
        fill(ticks, 2)
        assert [(await cursor.anext()).size, (await cursor.anext()).size] == [0, 1]
        cursor.close()
        with pytest.raises(tapedb.Closed):
            await cursor.anext()

    asyncio.run(main())


def test_many_async_cursors_wait_side_by_side(db, ticks):
    async def main():
        cursors = [ticks.cursor(live=True, history=False) for _ in range(50)]
        tasks = [asyncio.create_task(cursor.anext()) for cursor in cursors]
        await asyncio.sleep(0.05)
        fill(ticks, 1)
        assert [m.size for m in await asyncio.wait_for(asyncio.gather(*tasks), 60)] == [0] * 50
        for cursor in cursors:
            cursor.close()

    asyncio.run(main())


def test_a_slow_reader_of_a_transient_stream_is_told_what_it_missed(db):
    stream = db.create("ticks", TICKS, durability="transient", bytes_max=64 << 10)
    cursor = stream.cursor(live=True)
    with stream.loader(batch_bytes=1024) as load:
        for i in range(20_000):
            load.append("A", i, price=i, size=i)
    with pytest.raises(tapedb.Missed) as caught:
        cursor.next(1)
    assert caught.value.count > 0
    first = cursor.next(1)
    assert first.sequence == caught.value.first_sequence
    rest = list(iter(lambda: cursor.next(0), None))
    assert caught.value.count + 1 + len(rest) == 20_000 and rest[-1].size == 19_999


def test_a_slow_live_reader_takes_no_memory(db):
    """A reader far behind reads files; at most a block of messages is fetched ahead."""
    stream = db.create("ticks", TICKS)
    cursor = stream.cursor(live=True)
    fill(stream, 20_000)
    first = cursor.next(10)
    assert first.size == 0 and stream.stats().next_sequence - cursor.count == 19_999
    assert cursor._cursor._fetch(0) and sum(1 for _ in iter(lambda: cursor._cursor._pop(), None)) < 512


def test_a_reader_in_another_thread_sees_messages_while_they_are_written(db):
    stream, seen = db.create("ticks", TICKS), []
    cursor = stream.cursor(live=True)

    def read():
        for m in cursor:
            seen.append(m.size)
            if m.size == 9_999:
                return

    thread = threading.Thread(target=read)
    thread.start()
    with stream.loader(batch_bytes=1024) as load:
        for i in range(10_000):
            load.append("A", i, price=i, size=i)
    thread.join(60)
    assert seen == list(range(10_000))


def sizes(batches):
    return [size for batch in batches for size in batch["size"].tolist()]


def test_record_batches_history_then_live(any_db):
    np = pytest.importorskip("numpy")
    stream = fill(any_db.create("ticks", TICKS))
    reader = stream.arrow("Tick", ["size"], live=True, rows=64, start=START)
    assert reader.live and not reader.closed and list(reader.columns) == ["time", "symbol", "size"]
    first = [reader.next(10), reader.next(10)]
    assert [len(batch) for batch in first] == [64, 36] and sizes(first) == list(range(100))
    assert reader.next(0) is None and reader.next(0.01) is None and reader.caught_up and not reader.ended and reader.rows == 100
    # Late messages come live too, in order of arrival; those that the filter leaves out do not.
    with stream.loader() as load:
        load.append("X", START + 5, price=1, size=1000)
        load.append("X", START - 5, price=1, size=1001)
        load.append("Y", START + 6, price=1, size=1002)
        load.append("AIG", START + 4, price=1, size=1003)
    live = []
    while len(live) < 3:
        live.append(reader.next(10))
        live = [*live[:-1], *[(t, s, n) for t, s, n in zip(live[-1]["time"].astype("i8"), live[-1]["symbol"], live[-1]["size"])]]
    assert [(int(t) - START, s, int(n)) for t, s, n in live] == [(5, "X", 1000), (6, "Y", 1002), (4, "AIG", 1003)]
    assert np.shares_memory(first[0]["size"], first[0]["size"])


def test_record_batches_resume_where_they_were(any_db):
    pytest.importorskip("numpy")
    stream = fill(any_db.create("ticks", TICKS))
    reader = stream.arrow(fields=["size"], live=True, rows=30)
    reader.next(10), reader.next(10)
    position = reader.position()
    reader.close()
    again = stream.arrow(fields=["size"], live=True, resume=position)
    assert sizes([again.next(10)]) == list(range(60, 100))
    assert [m.size for m in stream.cursor(resume=position)] == list(range(60, 100))
    fill(stream, 5)
    assert sizes([again.next(10)]) == list(range(5))
    cursor = stream.cursor(resume=again.position(), live=True)
    assert cursor.next(0) is None
    # By symbol there is no position within history.
    by_symbol = stream.arrow(fields=["size"], order="symbol", live=True)
    assert by_symbol.position() is None and len(by_symbol.next(10)) > 0
    with pytest.raises(tapedb.Invalid):
        stream.arrow(fields=["size"], order="symbol", resume=position).next()


def test_a_live_batch_waits_for_more_messages(db, ticks):
    """With `every`, a batch begins with its first message, and ends when the time is over or it has its rows."""
    pytest.importorskip("numpy")
    reader = ticks.arrow(fields=["size"], live=True, history=False, every=3600, rows=10)
    fill(ticks, 4)
    assert reader.next(0.05) is None
    fill(ticks, 4)
    assert reader.next(0.05) is None and reader.rows == 0
    # Where the reader stands is before the messages that it holds back.
    assert [m.size for m in ticks.cursor(live=True, resume=reader.position()).take(100, 10)] == [0, 1, 2, 3] * 2
    fill(ticks, 4)
    assert sizes([reader.next(10)]) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    assert reader.next(0.05) is None
    reader = ticks.arrow(fields=["size"], live=True, history=False, every=0.05)
    fill(ticks, 3)
    assert sizes([reader.next(10)]) == [0, 1, 2]


def test_arguments_of_readers_of_batches(ticks):
    for bad in ({"every": -1}, {"rows": 0}, {"rows": 65_537}, {"history": False}, {"order": "price"}, {"live": True, "every": float("nan")}):
        with pytest.raises(tapedb.Invalid):
            ticks.arrow(**bad)
    with pytest.raises(tapedb.Invalid, match="timeout"):
        ticks.arrow(live=True).next(-1)
    finite = ticks.arrow(fields=["size"])
    assert not finite.live and len(list(finite)) == 1 and finite.ended and finite.next() is None
    finite.close()
    assert finite.closed
    with pytest.raises(tapedb.Closed):
        finite.next()


def test_readers_of_batches_and_what_happens_to_their_stream(any_db):
    stream = fill(any_db.create("ticks", TICKS))
    reader = stream.arrow(live=True)
    assert len(reader.next(10)) == 100
    any_db.delete("ticks")
    with pytest.raises(tapedb.Deleted):
        reader.next(10)
    other = fill(any_db.create("other", TICKS), 3).arrow(live=True)
    any_db.close()
    with pytest.raises(tapedb.Closed):
        other.next(0)


def test_closing_ends_a_wait_for_batches(ticks):
    reader, raised = ticks.arrow(live=True, history=False), []

    def read():
        try:
            next(reader)
        except tapedb.Closed as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    reader.close()
    thread.join(60)
    assert len(raised) == 1


def test_a_slow_reader_of_batches_is_told_what_it_missed(db):
    pytest.importorskip("numpy")
    stream = db.create("ticks", TICKS, durability="transient", bytes_max=64 << 10)
    reader = stream.arrow(fields=["size"], live=True, sequences=True)
    with stream.loader(batch_bytes=1024) as load:
        for i in range(20_000):
            load.append("A", i, price=i, size=i)
    with pytest.raises(tapedb.Missed) as caught:
        reader.next(1)
    rest = list(iter(lambda: reader.next(0), None))
    assert rest[0]["sequence"][0] == caught.value.first_sequence + caught.value.count or rest[0]["sequence"][0] == caught.value.first_sequence
    assert rest[-1]["size"][-1] == 19_999


def test_async_record_batches(db, ticks):
    pytest.importorskip("numpy")

    async def main():
        assert sizes([batch async for batch in ticks.arrow(fields=["size"], rows=40)]) == list(range(100))
        reader, seen = ticks.arrow(fields=["size"], live=True, every=0.01), []

        async def read():
            async for batch in reader:
                seen.extend(sizes([batch]))
                if seen[-1] == 999:
                    return

        task = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        with ticks.loader() as load:
            load.append("A", START, price=1, size=999)
        await asyncio.wait_for(task, 30)
        assert seen == [*range(100), 999]
        # A cancelled wait loses nothing, and what was read ahead is not behind the position.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(reader.anext(), 0.05)
        fill(ticks, 2)
        while not await asyncio.get_running_loop().run_in_executor(None, reader._batches._fetch, 1):
            pass
        assert [m.size for m in ticks.cursor(live=True, resume=reader.position()).take(9, 10)] == [0, 1]
        assert sizes([await reader.anext()]) == [0, 1]
        reader.close()
        with pytest.raises(tapedb.Closed):
            await reader.anext()

    asyncio.run(main())
