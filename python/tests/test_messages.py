"""Messages one by one: appended, read, shown."""

import dataclasses
import datetime as dt
import enum
from decimal import Decimal

import pytest

import tapedb
from conftest import START, TICKS, fill
from tapedb.types import F32, I8, U32, Char, TimeOfDay, ascii_, decimal_


def test_what_is_appended_is_read(any_db):
    stream = any_db.create("ticks", TICKS)
    with stream.loader() as load:
        load.append("AIG", START, price="48.350", size=100, venue="N")
        load.append("BAC", "2026-01-05T14:30:01.000000001Z", {"price": Decimal("1E-3"), "size": 7, "note": "ü"})
        load.append("AIG", dt.datetime(2026, 1, 5, 14, 30, 2, tzinfo=dt.timezone.utc), price=3, size=0)
        assert load.count == 3
    first, second, third = stream.cursor()
    assert (first.time, first.symbol, first.sequence, first.type, first.stream, first.space) == (START, "AIG", 0, "Tick", "ticks", 0)
    assert first.price == Decimal("48.350") and str(first.price) == "48.350"
    assert (first.size, first.venue, first.note) == (100, "N", None)
    assert second.time == START + 1_000_000_001 and second.price == Decimal("0.001") and second.note == "ü"
    assert third.time == START + 2_000_000_000 and third.price == 3
    assert first.datetime == dt.datetime(2026, 1, 5, 14, 30, tzinfo=dt.timezone.utc)
    assert first["size"] == 100 and first.keys() == ("price", "size", "venue", "note")
    assert first.to_dict() == {
        "type": "Tick", "time": START, "symbol": "AIG", "price": Decimal("48.350"), "size": 100, "venue": "N", "note": None
    }
    assert first.to_json() == (
        '{"$type":"Tick","symbol":"AIG","timestamp":"2026-01-05T14:30:00Z","price":"48.350","size":100,"venue":"N"}'
    )
    assert repr(first) == "Tick(AIG 2026-01-05T14:30:00Z, price=48.350, size=100, venue='N', note=None)"


def test_filters(ticks):
    count = lambda **filters: len(list(ticks.cursor(**filters)))  # noqa: E731
    assert count() == 100
    assert count(symbols="AIG") == 34 and count(symbols=["AIG", "C"]) == 67 and count(symbols=[]) == 0
    assert count(start=START + 10 * 10**9) == 90
    assert count(end="2026-01-05T14:30:10") == 10
    assert count(start="2026-01-05T14:30:10", end="2026-01-05T14:30:20") == 10
    assert count(types="Tick") == 100
    assert [m.size for m in ticks.cursor(last=3)] == [97, 98, 99]
    assert [m.size for m in ticks.cursor(reverse=True)][:2] == [99, 98]
    assert sorted(m.symbol for m in ticks.cursor(last_values=True)) == ["AIG", "BAC", "C"]
    assert next(ticks.cursor(from_sequence=40)).sequence == 40
    with pytest.raises(tapedb.SchemaError, match="no such message type"):
        ticks.cursor(types="Quote")
    with pytest.raises(tapedb.Invalid, match="live=True"):
        ticks.cursor(history=False)
    with pytest.raises(tapedb.Invalid, match="backwards cannot be live"):
        ticks.cursor(reverse=True, live=True)


def test_take_and_next(ticks):
    cursor = ticks.cursor()
    assert [m.size for m in cursor.take(3)] == [0, 1, 2]
    assert cursor.next().size == 3 and cursor.count == 4 and not cursor.ended
    assert len(cursor.take(1000)) == 96
    assert cursor.take(5) == [] and cursor.next() is None and cursor.ended
    cursor.seek("2026-01-05T14:30:50")
    assert not cursor.ended and cursor.next().size == 50


def test_positions_are_behind_what_was_returned(ticks):
    for taken in (0, 1, 50, 99, 100):
        cursor = ticks.cursor()
        assert len(cursor.take(taken)) == taken or taken == 0
        rest = [m.size for m in ticks.cursor(resume=cursor.position())]
        assert rest == list(range(taken, 100))
    backwards = ticks.cursor(reverse=True)
    backwards.take(10)
    assert next(ticks.cursor(reverse=True, resume=backwards.position())).size == 89
    with pytest.raises(tapedb.Invalid, match="no position"):
        ticks.cursor(resume="somewhere")


class Side(enum.Enum):
    BID = 0
    ASK = 1


@dataclasses.dataclass
class Trade:
    """One execution."""

    price: Decimal
    size: int
    side: Side = Side.BID

    def notional(self):
        return self.price * self.size

    @property
    def is_large(self):
        return self.size >= 100


@dataclasses.dataclass(slots=True)
class Quote:
    bid: Decimal | None
    ask: Decimal | None = None


@dataclasses.dataclass
class Package:
    entries: list[Trade | Quote]
    source_time: dt.datetime | None = None
    best: Quote | None = None
    tags: list[str | None] = dataclasses.field(default_factory=list)


def test_classes_are_schemas(db):
    stream = db.create("packages", [Package, Trade])
    assert stream.types == ["Trade", "Package"] or stream.types == ["Package", "Trade"]
    assert "/// One execution." in stream.schema and "side: Side = BID" in stream.schema
    with stream.loader() as load:
        when = dt.datetime(2026, 1, 5, tzinfo=dt.timezone.utc)
        package = Package([Trade(Decimal("1.5"), 100), Quote(Decimal(2))], when, Quote(None, Decimal("3.0")), ["a", None])
        load.append("A", 1, package)
        load.append("A", 2, Trade(Decimal(2), 5, Side.ASK))
        load.append("A", 3, type="Trade", price=3, size=1)
        load.append("A", 4, {"entries": [{"type": "Trade", "price": 1, "size": 2}], "tags": []}, type="Package")
    first, second, third, fourth = stream.cursor()
    assert isinstance(first, Package) and isinstance(first, tapedb.Message) and first.source_time == 1_767_571_200_000_000_000
    trade, quote = first.entries
    assert isinstance(trade, Trade) and isinstance(quote, Quote) and isinstance(trade, tapedb.Record)
    assert trade.side is Side.BID and trade.notional() == 150 and trade.is_large
    assert first.tags == ["a", None] and first.best.ask == 3 and first.best.bid is None
    kinds = []
    for entry in (*first.entries, second):
        match entry:
            case Trade(price=price, side=Side.ASK):
                kinds.append(("ask", price))
            case Trade(price, size):
                kinds.append(("bid", price, size))
            case Quote(bid=bid):
                kinds.append(("quote", bid))
    assert kinds == [("bid", Decimal("1.5"), 100), ("quote", 2), ("ask", 2)]
    assert third.side is Side.BID and fourth.entries[0].size == 2
    assert repr(trade) == "Trade(price=1.5, size=100, side=<Side.BID: 0>)"
    # A message that was read can be appended as it is, also nested.
    copy = db.create("copy", stream.schema)
    with copy.loader() as load:
        for m in stream.cursor():
            load.append(m.symbol, m.time, m)
    assert [m.to_dict() for m in copy.cursor()][0]["entries"] == [
        {"type": "Trade", "price": Decimal("1.5"), "size": 100, "side": "BID"}, {"type": "Quote", "bid": 2, "ask": None}
    ]


def test_classes_are_known_when_a_stream_is_opened_again(path):
    with tapedb.open(path) as db, db.create("trades", Trade).loader() as load:
        load.append("A", 1, Trade(Decimal(1), 2))
    with tapedb.open(path) as db:
        (plain,) = db["trades"].cursor()
        assert not isinstance(plain, Trade) and plain.side == "BID"
        assert isinstance(plain, db["trades"].type("Trade")) or type(plain).__name__ == "Trade"
        (known,) = db.stream("trades", types=[Trade]).cursor()
        assert isinstance(known, Trade) and known.side is Side.BID
        assert [m.is_large for m in db.cursor(["trades"])] == [False]


def test_pydantic_models_are_schemas(db):
    pydantic = pytest.importorskip("pydantic")

    class Bar(pydantic.BaseModel):
        close: float = pydantic.Field(description="last price")
        volume: U32 = 5
        note: str | None = None

    stream = db.create("bars", Bar)
    assert stream.schema == (
        "message Bar {\n    /// last price\n    close: f64,\n    volume: u32 = 5,\n    note: string? = null,\n}\n"
    )
    with stream.loader() as load:
        load.append("A", 1, Bar(close=1.5))
        load.append("A", 2, close=2)
    first, second = stream.cursor()
    assert (first.close, first.volume, second.volume, second.note) == (1.5, 5, 5, None)
    assert isinstance(first, Bar)


@dataclasses.dataclass
class Every:
    flag: bool
    tiny: I8
    single: F32
    letter: Char
    code: ascii_(12)
    fee: decimal_(4)
    at: TimeOfDay
    clock: dt.time
    raw: bytes
    numbers: list[float]


def test_every_type(db):
    stream = db.create("every", Every)
    value = Every(True, -128, 0.1, "ß", "ABC", Decimal("-922337203685477.5808"), 1, dt.time(9, 30, 0, 1), b"\0\xff", [1.5, 2.5])
    with stream.loader() as load:
        load.append("A", -(2**63), value)
        load.append("A", 2**63 - 1, value)
    first, last = stream.cursor()
    assert (first.time, last.time) == (-(2**63), 2**63 - 1)
    assert first.flag is True and first.tiny == -128 and abs(first.single - 0.1) < 1e-8 and first.letter == "ß"
    assert first.code == "ABC" and first.fee == Decimal("-922337203685477.5808") and first.at == 1
    assert first.clock == (9 * 60 + 30) * 60 * 10**9 + 1000 and first.raw == b"\0\xff" and first.numbers == [1.5, 2.5]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"price": "x", "size": 1}, "Tick.price"),
        ({"price": float("nan"), "size": 1}, "Tick.price"),
        ({"price": 1, "size": -1}, "Tick.size"),
        ({"price": 1, "size": 2**32}, "Tick.size"),
        ({"price": 1, "size": 1.5}, "Tick.size"),
        ({"price": 1, "size": True}, "Tick.size"),
        ({"price": 1, "size": None}, "Tick.size"),
        ({"price": 1}, "Tick.size"),
        ({"price": 1, "size": 1, "venue": "TOOLONG"}, "Tick.venue"),
        ({"price": 1, "size": 1, "venue": "ß"}, "Tick.venue"),
        ({"price": 1, "size": 1, "note": b"x"}, "Tick.note"),
        ({"price": 1, "size": 1, "bid": 1}, "Tick.bid"),
    ],
)
def test_what_does_not_fit_is_named(db, fields, field):
    stream = db.create("ticks", TICKS)
    with stream.loader() as load:
        load.append("A", 1, price=1, size=1)
        with pytest.raises(tapedb.SchemaMismatch) as caught:
            load.append("A", 2, **fields)
        assert caught.value.field == field and field in str(caught.value)
        load.append("A", 3, price=1, size=1)
    assert [m.time for m in stream.cursor()] == [1, 3]


def test_symbols(db):
    stream = db.create("ticks", TICKS)
    longest = "ü" * 127 + "x"
    with stream.loader() as load:
        for symbol in ("A", longest, "中文 😀"):
            load.append(symbol, 1, price=1, size=1)
        for symbol in ("", "x" * 256):
            with pytest.raises(tapedb.SchemaMismatch, match="1 to 255"):
                load.append(symbol, 1, price=1, size=1)
    assert [m.symbol for m in stream.cursor()] == ["A", longest, "中文 😀"] == stream.symbols()
    stream.rename_symbol("A", "B")
    assert [m.symbol for m in stream.cursor(symbols=["B"])] == ["B"]
    with pytest.raises(tapedb.NotFound) as caught:
        stream.rename_symbol("A", "C")
    assert (caught.value.what, caught.value.name) == ("symbol", "A")


def test_fields_with_names_of_the_header(db):
    """The field has the name; what all messages have is called `message_` and it, as in columns."""
    for name in ("type", "symbol", "time"):
        with pytest.raises(tapedb.SchemaError, match="header"):
            db.create("odd", f"message Odd {{ {name}: string }}")
    names = ["sequence", "space", "stream", "datetime"]
    stream = db.create("odd", f"message Odd {{ {', '.join(f'{name}: string' for name in names)}, keys: i8 }}")
    with stream.loader() as load:
        load.append("A", 5, {**{name: f"field {name}" for name in names}, "keys": 1})
    (m,) = stream.cursor()
    assert [getattr(m, name) for name in names] == [f"field {name}" for name in names] and m.symbol == "A" and m.type == "Odd"
    assert (m.time, m.message_sequence, m.message_space, m.message_stream) == (5, 0, 0, "odd")
    assert m.message_datetime.microsecond == 0 and m.keys == 1 and m["keys"] == 1
    found = m.to_dict()
    assert (found["time"], found["symbol"], found["type"], found["sequence"]) == (5, "A", "Odd", "field sequence")
    copy = db.create("copy", stream.schema)
    with copy.loader() as load:
        load.append(m.symbol, m.time, m)
    assert [n.to_dict() for n in copy.cursor()] == [found]


def test_messages_cannot_be_changed_or_made(ticks):
    m = next(ticks.cursor())
    with pytest.raises(AttributeError, match="cannot be changed"):
        m.price = 1
    with pytest.raises(AttributeError):
        m.time = 1
    with pytest.raises(TypeError, match="made by cursors"):
        type(m)()
    with pytest.raises(KeyError, match="no field"):
        m["nothing"]
    again = next(ticks.cursor())
    assert m == again and hash(m) == hash(again) and m is not again
    assert m != next(ticks.cursor(symbols=["BAC"])) and m != 1


def test_what_notebooks_show(db, ticks):
    assert "<table>" in ticks._repr_html_() and "Tick" in ticks._repr_html_()
    assert "ticks" in db._repr_html_()
    assert "48.00" in ticks.table()._repr_html_() or "48.0" in ticks.table()._repr_html_()
    assert repr(db).startswith("Database(") and repr(ticks) == "Stream('ticks': Tick)"
    assert "100 messages returned" in repr(_exhausted(ticks.cursor()))


def _exhausted(cursor):
    list(cursor)
    return cursor


def test_streams_and_options(db, path):
    stream = fill(db.create("a", TICKS, durability="sync", late="refuse", keep_for="30d", seal_after=60, exist_ok=True))
    assert stream.options["durability"] == "sync" and stream.options["keep_for"] == 30 * 86400
    with stream.loader() as load, pytest.raises(tapedb.Late) as caught:
        load.append("A", 1, price=1, size=1)
        load.flush()
    assert caught.value.stream == "a" and caught.value.time == 1 and caught.value.last == START + 99 * 10**9
    stream.alter(late="accept", keep_for=dt.timedelta(days=2), cold_after=None)
    assert stream.options["late"] == "accept" and stream.options["keep_for"] == 2 * 86400
    for options in ({"durability": "eternal"}, {"late": 1}, {"keep_for": "soon"}, {"spaces": -1}, {"colour": "red"}):
        with pytest.raises(tapedb.Invalid):
            db.create("bad", TICKS, **options)
    stats = stream.stats()
    assert (stats.messages, stats.symbols, stats.first_time, stats.last_time) == (100, 4, START, START + 99 * 10**9)
    assert db.streams() == ["a"] == list(db) and "a" in db and "b" not in db and 1 not in db
    stream.delete(symbols="AIG", end=START + 10 * 10**9)
    assert len(list(stream.cursor())) == 96
    with pytest.raises(tapedb.Invalid, match="which messages"):
        stream.delete()
    stream.clear()
    assert list(stream.cursor()) == []
    assert db.rename("a", "b").name == "b" and db.streams() == ["b"]
    db.delete("b")
    assert db.streams() == []


def test_schemas_change(db):
    stream = fill(db.create("ticks", TICKS), 3)
    wider = TICKS.replace("size: u32", "size: u64, flags: u8 = 7")
    assert any("flags" in change for change in stream.compare_schema(wider))
    changed = db.change_schema("ticks", wider)
    assert [m.flags for m in changed.cursor()] == [7, 7, 7]
    with pytest.raises(tapedb.SchemaError):
        db.change_schema("ticks", "message Tick { price: bool }")
    with pytest.raises(tapedb.SchemaError, match="no enum named money"):
        db.create("bad", "message Tick { price: money }")
    with pytest.raises(tapedb.SchemaError, match="does not describe"):
        db.create("bad", 7)
    with pytest.raises(tapedb.SchemaError, match="not a type of messages"):
        db.create("bad", dataclasses.make_dataclass("Bad", [("x", complex)]))
