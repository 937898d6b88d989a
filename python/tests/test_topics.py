"""Topics: messages through shared memory."""

import sys
import threading
from decimal import Decimal

import pytest

import tapedb

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="topics need Linux")

QUOTES = "message Quote { bid: decimal64, ask: decimal64? }"


@pytest.fixture
def topic(tmp_path):
    with tapedb.topic("quotes", QUOTES, folder=tmp_path) as topic:
        yield topic


def test_what_is_published_is_received(topic):
    every, aapl = topic.subscribe(), topic.subscribe(symbols="AAPL", waiting="spin")
    assert every.next(0) is None
    assert topic.publish("AAPL", 1, bid="187.25", ask=188) == 0
    assert topic.publish("MSFT", "2026-01-05", {"bid": 1}) == 1
    with topic.publisher() as publisher:
        assert publisher.publish("AAPL", 3, bid=2, timeout=1) == 2
    first, second, third = (every.next(10) for _ in range(3))
    assert (first.symbol, first.time, first.bid, first.ask, first.stream) == ("AAPL", 1, Decimal("187.25"), 188, "quotes")
    assert second.ask is None and third.sequence == 2 and every.next_sequence == 3
    assert [aapl.next(10).time, aapl.next(10).time, aapl.next(0)] == [1, 3, None]
    assert topic.stats() == {"publishers": 1, "subscribers": 2, "next_sequence": 3}
    late = topic.subscribe(oldest=True)
    assert [late.next(0).sequence for _ in range(3)] == [0, 1, 2]


def test_between_threads(topic):
    subscriber, seen = topic.subscribe(), []

    def read():
        for m in subscriber:
            seen.append(m.bid)
            if len(seen) == 5000:
                return

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(5000):
        topic.publish("A", i, bid=i)
    thread.join(60)
    assert seen == list(range(5000))


def test_slow_subscribers(tmp_path):
    reliable = tapedb.topic("reliable", QUOTES, folder=tmp_path, ring_bytes=1 << 16, stall=60)
    slow = reliable.subscribe()
    sent = 0
    while reliable.publish("A", sent, bid=sent, timeout=0) is not None:
        sent += 1
    assert sent > 100 and slow.next(0).bid == 0 and slow.missed == 0
    lossy = tapedb.topic("lossy", QUOTES, folder=tmp_path, ring_bytes=1 << 16, delivery="lossy")
    slow = lossy.subscribe()
    for i in range(2 * sent):
        lossy.publish("A", i, bid=i)
    with pytest.raises(tapedb.Missed) as caught:
        slow.next(0)
    assert caught.value.count == slow.missed > 0
    assert slow.next(0).bid == caught.value.first_sequence + caught.value.count


def test_names_and_errors(topic, tmp_path, db):
    assert tapedb.topics(folder=tmp_path) == ["quotes"]
    with pytest.raises(tapedb.NotFound):
        tapedb.topic("nothing", folder=tmp_path)
    with pytest.raises(tapedb.SchemaError):
        tapedb.topic("quotes", "message Other { x: u8 }", folder=tmp_path)
    with pytest.raises(tapedb.Invalid):
        tapedb.topic("a/b", QUOTES, folder=tmp_path)
    with pytest.raises(tapedb.Invalid):
        tapedb.topic("q", QUOTES, folder=tmp_path, ring_bytes=1)
    with pytest.raises(tapedb.SchemaMismatch) as caught:
        topic.publish("A", 1, bid="x")
    assert caught.value.field == "Quote.bid"
    with pytest.raises(tapedb.SchemaMismatch):
        topic.publish("", 1, bid=1)
    with pytest.raises(tapedb.SchemaError):
        topic.subscribe(types="Trade")
    with pytest.raises(tapedb.Invalid):
        topic.subscribe(waiting="sleep")
    tapedb.delete_topic("quotes", folder=tmp_path)
    with pytest.raises(tapedb.Deleted):
        topic.check()
    subscriber = topic.subscribe()
    subscriber.close()
    with pytest.raises(tapedb.Closed):
        subscriber.next(0)
    own = db.topic("quotes", QUOTES)
    assert own.subscribe().next(0) is None and tapedb.topics(database=db.path) == ["quotes"]
    tapedb.delete_topic("quotes", database=db.path)
