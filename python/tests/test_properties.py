"""Properties: what is written is read, for values that look for trouble, by every way in and out."""

import datetime as dt
import math
import os
import tempfile
from decimal import Decimal

import pytest

import tapedb

hypothesis = pytest.importorskip("hypothesis")
given, settings, st = hypothesis.given, hypothesis.settings, hypothesis.strategies

SCHEMA = """
enum Side { BID, ASK }
record Leg { ratio: i8, note: string? }
record Tag { text: ascii(16) }
message Every {
    b: bool, i8: i8, i16: i16, i32: i32, i64: i64, u8: u8, u16: u16, u32: u32, u64: u64, f32: f32, f64: f64,
    d: decimal64, s: decimal(18,4), t: timestamp, o: time_of_day, c: char, a: ascii(8), x: string, y: binary, e: Side,
    l: array<i64?>, r: record<Leg>, p: record<Leg|Tag>, q: array<record<Leg|Tag>>,
    nb: bool?, ni: i32?, nf: f64?, nd: decimal64?, nt: timestamp?, nx: string?, ny: binary?, ne: Side?, nl: array<f64>?, nr: record<Leg>?,
}
"""

I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=8)
# Sixteen digits at any exponent, and what is not a number.
DECIMAL = st.one_of(
    st.builds(lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-(10**16) + 1, 10**16 - 1), st.integers(-50, 50)),
    st.sampled_from([Decimal("0.00"), Decimal("-0"), Decimal("Infinity"), Decimal("-Infinity"), Decimal("NaN"), Decimal("9.999999999999999E+384")]),
)
LEG = st.fixed_dictionaries({"ratio": st.integers(-128, 127), "note": st.none() | TEXT})
TYPED_LEG = LEG.map(lambda leg: {"type": "Leg", **leg})
TAG = st.fixed_dictionaries({"type": st.just("Tag"), "text": ASCII})


def integers(bits, signed):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


MESSAGE = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        **{f"i{bits}": integers(bits, True) for bits in (8, 16, 32, 64)},
        **{f"u{bits}": integers(bits, False) for bits in (8, 16, 32, 64)},
        "f32": st.floats(width=32),
        "f64": st.floats(),
        "d": DECIMAL,
        "s": I64.map(lambda units: Decimal(units).scaleb(-4)),
        "t": I64,
        "o": st.integers(0, 86_399_999_999_999),
        "c": st.characters(exclude_categories=["Cs"]),
        "a": ASCII,
        "x": TEXT,
        "y": st.binary(max_size=40),
        "e": st.sampled_from(["BID", "ASK"]),
        "l": st.lists(st.none() | I64, max_size=5),
        "r": LEG,
        "p": TYPED_LEG | TAG,
        "q": st.lists(TYPED_LEG | TAG, max_size=3),
        "nb": st.none() | st.booleans(),
        "ni": st.none() | integers(32, True),
        "nf": st.none() | st.floats(),
        "nd": st.none() | DECIMAL,
        "nt": st.none() | I64,
        "nx": st.none() | TEXT,
        "ny": st.none() | st.binary(max_size=40),
        "ne": st.none() | st.sampled_from(["BID", "ASK"]),
        "nl": st.none() | st.lists(st.floats(), max_size=3),
        "nr": st.none() | LEG,
    }
)
SYMBOL = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=63)
ROWS = st.lists(st.tuples(SYMBOL, I64, MESSAGE), max_size=20)

EXAMPLES = int(os.environ.get("TAPEDB_TRIALS", "15"))
COMMON = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))


def same(a, b):
    """Equality in which every NaN equals the others, zeros have signs, and decimals their digits."""
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) - {"type"} == set(b) - {"type"} and all(same(a[key], b[key]) for key in a if key != "type")
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isnan(a) and math.isnan(b) or a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return a.is_nan() and b.is_nan() or a == b
    return type(a) is type(b) and a == b


def in_time_order(rows):
    """Rows as a cursor returns them: equal times in order of arrival."""
    return sorted(rows, key=lambda row: row[1])


def check(rows, stream):
    read = [(m.symbol, m.time, m.to_dict()) for m in stream.cursor()]
    assert len(read) == len(rows)
    for (symbol, time, fields), (read_symbol, read_time, found) in zip(in_time_order(rows), read):
        assert (symbol, time) == (read_symbol, read_time)
        for name, value in fields.items():
            assert same(value, found[name]), (name, value, found[name])


@COMMON
@given(ROWS, st.booleans())
def test_messages_round_trip(rows, is_sealed):
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        stream = db.create("every", SCHEMA)
        with stream.loader() as load:
            for symbol, time, fields in rows:
                load.append(symbol, time, **fields)
        if is_sealed:
            stream.seal()
        check(rows, stream)


@COMMON
@given(ROWS)
def test_tables_round_trip(rows):
    """A table of one stream, without loss, loaded into another one by way of pyarrow and Polars."""
    pa = pytest.importorskip("pyarrow")
    pl = pytest.importorskip("polars")
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        stream = db.create("every", SCHEMA)
        with stream.loader() as load:
            for symbol, time, fields in rows:
                load.append(symbol, time, **fields)
        stream.seal()
        for number, through in enumerate((lambda table: table, pa.table, pl.DataFrame)):
            copy = db.create(f"copy{number}", SCHEMA)
            with copy.loader() as load:
                # Polars forgets the mark of raw decimals: there they travel as exact numbers where they are some.
                if through is pl.DataFrame and any(not has_scale(row[2]) for row in rows):
                    continue
                raw = "raw" if through is not pl.DataFrame else (38, 18)
                assert load.append_table(through(stream.table(decimals=raw))) == len(rows)
            check(rows, copy)


def has_scale(fields):
    """Whether the decimals are exact with 18 digits after the point, of 38, and those of a fixed scale have at most 18 digits."""
    if abs(fields["s"]) >= 10**14:
        return False
    numbers = [number for number in (fields["d"], fields["nd"]) if number is not None]
    return all(number.is_finite() and number.as_tuple().exponent >= -18 and abs(number) < 10**18 for number in numbers)


@COMMON
# The earliest time is NumPy's NaT.
@given(st.lists(st.tuples(SYMBOL, st.integers(-(2**63) + 1, 2**63 - 1), st.none() | st.floats(allow_nan=False)), max_size=50))
def test_columns_round_trip_through_numpy_and_pandas(rows):
    pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        stream = db.create("x", "message X { v: f64? }")
        with stream.loader() as load:
            for symbol, time, value in rows:
                load.append(symbol, time, v=value)
        for number, frame in enumerate((stream.table().to_numpy(), stream.table().to_pandas())):
            copy = db.create(f"copy{number}", stream.schema)
            with copy.loader() as load:
                if number == 0:
                    frame["v"] = [None if math.isnan(value) else value for value in frame["v"].tolist()]
                load.append_table(frame, zone="UTC")
            expected = [(symbol, time, value) for symbol, time, value in in_time_order(rows)]
            assert [(m.symbol, m.time, m.v) for m in copy.cursor()] == expected


@COMMON
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary() | st.datetimes(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)), st.sampled_from("b i8 u64 f32 f64 d s t o c a x y e l r p q nb ni nl nr".split()))
def test_any_value_is_stored_or_refused_whole(value, name):
    """Whatever is given for a field: it is read back, or the error names the field, and nothing is stored."""
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        kind = {field: text for field, text, *_ in db.create("every", SCHEMA)._stream.fields("Every")}[name]
        nullable = "?" if name.startswith("n") else ""
        stream = db.create("one", SCHEMA.split("message")[0] + f"message One {{ v: {kind}{nullable} }}")
        with stream.loader() as load:
            try:
                load.append("A", 1, v=value)
            except tapedb.SchemaMismatch as error:
                assert error.field.startswith("One.v") and load.pending == 0
                return
        (m,) = stream.cursor()
        assert m.v is None or m["v"] == m.v or m.v != m.v or isinstance(m.v, list)


@COMMON
@given(st.integers(0, 60), st.integers(1, 20), st.booleans())
def test_a_position_is_exact_wherever_it_is_taken(taken, batch, is_live):
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        a, b = (db.create(name, "message X { n: u32 }") for name in "ab")
        for stream in (a, b):
            with stream.loader() as load:
                for n in range(30):
                    load.append("S", (n * 7) % 13, n=n)
        whole = [(m.stream, m.n) for m in db.cursor(["a", "b"])]
        cursor, seen = db.cursor(["a", "b"], live=is_live), []
        while len(seen) < taken:
            found = cursor.take(min(batch, taken - len(seen)), 0)
            if not found:
                break
            seen += [(m.stream, m.n) for m in found]
        rest = [(m.stream, m.n) for m in db.cursor(["a", "b"], resume=cursor.position())]
        assert seen + rest == whole


@COMMON
@given(st.integers(0, 60), st.integers(1, 40), st.integers(0, 5), st.booleans(), st.booleans())
def test_batches_are_the_messages_and_their_positions_are_exact(count, rows, taken, is_live, is_sealed):
    """Readers of record batches return what a cursor returns, and go on behind any of their batches."""
    pytest.importorskip("numpy")
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        stream = db.create("x", "message X { n: u32 }")
        with stream.loader() as load:
            for n in range(count):
                load.append("AB"[n % 2], (n * 7) % 13, n=n)
        if is_sealed:
            stream.seal()
        numbers = lambda batch: list(zip(batch["sequence"].tolist(), batch["n"].tolist(), batch["symbol"].tolist()))  # noqa: E731
        reader, seen = stream.arrow(rows=rows, live=is_live, sequences=True), []
        for _ in range(taken):
            batch = reader.next(0)
            if batch is None:
                break
            assert 1 <= len(batch) <= rows
            seen += numbers(batch)
        position = reader.position()
        with stream.loader() as load:
            load.append("C", 0, n=1000)
        late = [(count, 1000, "C")]
        live = stream.arrow(resume=position, live=True, sequences=True)
        rest = [row for batch in iter(lambda: live.next(0), None) for row in numbers(batch)]
        whole = [(m.sequence, m.n, m.symbol) for m in stream.cursor() if m.n != 1000]
        assert seen + rest == whole + late
        assert [(m.sequence, m.n, m.symbol) for m in iter(lambda c=stream.cursor(resume=position, live=True): c.next(0), None)] == rest


@COMMON
@given(st.lists(st.integers(1, 400), min_size=1, max_size=6), st.none() | st.integers(0, 2399), st.sampled_from(["size", "price", "symbol", "time"]), st.booleans())
def test_a_table_in_pieces_is_stored_whole_or_not_at_all(pieces, bad, column, is_slow):
    """Whatever the pieces, whichever row does not fit: the row is named, and nothing is stored."""
    pa = pytest.importorskip("pyarrow")
    total = sum(pieces)
    columns = {"time": list(range(total)), "symbol": ["A"] * total, "price": [n / 4 for n in range(total)], "size": list(range(total))}
    is_bad = bad is not None and bad < total
    if is_bad:
        columns[column][bad] = {"size": 1 << 40, "price": float("inf"), "symbol": "", "time": None}[column]
    # Integers of another width are not slices of the loader: they go value by value.
    size = pa.array(columns["size"], pa.int64() if is_slow or is_bad else pa.uint32())
    table = pa.table({**columns, "time": pa.array(columns["time"], pa.timestamp("ns", "UTC")), "size": size})
    starts = [sum(pieces[:n]) for n in range(len(pieces))]
    table = pa.concat_tables([table.slice(start, length) for start, length in zip(starts, pieces)])
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        stream = db.create("x", "message X { price: decimal64, size: u32 }")
        with stream.loader() as load:
            try:
                assert load.append_table(table) == total and not is_bad
            except tapedb.SchemaMismatch as error:
                assert is_bad and (error.field, error.row) == (column, bad)
                assert load.count == load.pending == 0
        assert [m.size for m in stream.cursor()] == ([] if is_bad else list(range(total)))
        assert stream.symbols() == ([] if is_bad else ["A"])


def test_bad_schemas_and_positions_are_errors():
    @COMMON
    @given(TEXT | st.text("message record enum X { } : , i64 <>|=?\n", max_size=60))
    def check_text(text):
        try:
            tapedb._tapedb.check_schema(text)
        except tapedb.Error as error:
            assert str(error)

    check_text()
    with tempfile.TemporaryDirectory() as path, tapedb.open(path) as db:
        stream = db.create("x", "message X { v: f64 }")

        @COMMON
        @given(TEXT | st.from_regex(r"(live|start|history) -?\d{1,30}( -?\d{1,30}){0,2} (id=[0-9a-f]{16} )?x\n?", fullmatch=True))
        def check_position(text):
            try:
                assert list(stream.cursor(resume=text)) == []
            except tapedb.Error as error:
                assert str(error)

        check_position()


@COMMON
@given(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)), st.integers(-14, 14))
def test_datetimes_round_trip(naive, hours):
    when = naive.replace(tzinfo=dt.timezone(dt.timedelta(hours=hours)))
    assert tapedb.to_datetime(tapedb.nanos(when)) == when
