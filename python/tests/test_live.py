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
