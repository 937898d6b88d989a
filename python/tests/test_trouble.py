"""Values, arrays and tables as an adversary gives them: each is stored exactly or refused by name, and nothing is half-stored."""

import datetime as dt
import decimal
import enum
import sys

import pytest

import tapedb
from conftest import START, TICKS, fill

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")

TIMES = [START + i for i in range(8)]
SYMBOLS = ["A", "B"] * 4
WIDTHS = "message W { i8: i8?, u64: u64?, f32: f32?, f64: f64?, b: bool?, s: string?, y: binary?, t: timestamp?, d: decimal64?, x: decimal(18,4)?, o: time_of_day? }"


def load(db, schema, **columns):
    """A stream with a table of these columns; `time` and `symbol` are there unless they are given."""
    stream = db.create("loaded", schema)
    with stream.loader() as loader:
        loader.append_table({"time": TIMES, "symbol": SYMBOLS, **columns})
    return stream


def arrow(**columns):
    return pa.table({"time": pa.array(TIMES, pa.timestamp("ns", "UTC")), "symbol": pa.array(SYMBOLS), **columns})


def loaded(db, table, field, schema=WIDTHS):
    stream = db.create("loaded", schema)
    with stream.loader() as loader:
        assert loader.append_table(table) == len(TIMES)
    return [m[field] for m in stream.cursor()]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(8, dtype=">i8"),
        np.arange(16)[::2] // 2,
        np.arange(8)[::-1][::-1],
        np.arange(8, dtype="u2"),
        np.arange(8).astype(object),
        np.arange(8).reshape(2, 4).T.reshape(8, order="F"),
        np.ma.MaskedArray(np.arange(8), mask=[False] * 8),
        np.lib.stride_tricks.as_strided(np.arange(8), (8,), (8,), writeable=False),
        np.frombuffer(np.arange(8, dtype="i8").tobytes(), "i8"),
        np.frombuffer(b"x" + np.arange(8, dtype="i8").tobytes(), np.uint8)[1:].view("i8"),
        range(8),
        tuple(range(8)),
        np.arange(8, dtype="f4"),
        np.arange(8, dtype="f2"),
        pd.Series(range(8), index=range(100, 108)),
        pd.array(range(8), dtype="Int64"),
        pa.array(range(8)),
        pa.chunked_array([[0, 1, 2], [], [3, 4, 5, 6, 7]]),
        pl.Series(range(8)),
    ],
    ids=lambda array: f"{type(array).__name__} {getattr(array, 'dtype', '')}",
)
def test_any_array_of_numbers(db, array):
    stream = load(db, "message N { n: i64 }", n=array)
    assert [m.n for m in stream.cursor()] == list(range(8))


@pytest.mark.parametrize(
    "array",
    [
        pa.array(range(8), pa.int64()),
        pa.array(range(-3, 8)).slice(3),
        pa.array([None, *range(8)]).slice(1),
        pa.array(list(range(8))).dictionary_encode(),
        pa.array([None, *range(8)]).dictionary_encode().slice(1),
        pa.array([float(i) for i in range(8)]),
        pa.array([decimal.Decimal(i) for i in range(8)]),
        pa.array([decimal.Decimal(i) for i in range(8)], pa.decimal256(50, 0)),
        pa.array(range(8), pa.uint8()),
        pa.array([float(i) for i in range(8)], pa.float16()),
    ],
    ids=lambda array: f"{array.type} {array.offset}",
)
def test_any_arrow_array_of_numbers(db, array):
    try:
        assert loaded(db, arrow(n=array), "n", "message N { n: i64 }") == list(range(8))
    except tapedb.SchemaMismatch as error:
        # A type that is not known is refused by name.
        assert error.field == "n" and str(array.type) in ("decimal256(50, 0)", "halffloat", "float16") and list(db["loaded"].cursor()) == []


TEXTS = ["", "a", "ü", "x" * 300, None, "\0", "😀", "b"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint64(), pa.large_string())], ids=str)
def test_texts_of_any_kind(db, kind):
    array = pa.array(["cut", *TEXTS], pa.string()).cast(kind) if pa.types.is_dictionary(kind) else pa.array(["cut", *TEXTS], kind)
    assert loaded(db, arrow(s=array.slice(1)), "s") == TEXTS


def test_a_dictionary_with_a_null_among_its_values(db):
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 0, 1, 2, 1], pa.int8()), pa.array(["a", None, "c"]))
    assert loaded(db, arrow(s=array), "s") == ["a", None, "c", None, "a", None, "c", None]


@pytest.mark.parametrize("key", [3, -1])
def test_a_key_without_a_value(db, key):
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 1, 2, key, 0], pa.int8()), pa.array(["a", "b", "c"]), safe=False)
    stream = db.create("loaded", "message W { s: string }")
    for columns in ({"symbol": SYMBOLS, "s": keys}, {"symbol": keys, "s": SYMBOLS}):
        with stream.loader() as loader, pytest.raises(tapedb.Error, match="value 6 has the key"):
            loader.append_table({"time": TIMES, **columns})
    assert stream.stats().messages == 0


def test_symbols_of_any_kind(db):
    for number, array in enumerate((pa.array(SYMBOLS, pa.large_string()), pa.array(SYMBOLS, pa.string_view()), pa.array(["Z", *SYMBOLS]).slice(1).dictionary_encode())):
        stream = db.create(f"s{number}", "message N { }")
        with stream.loader() as loader:
            loader.append_table(pa.table({"time": pa.array([time // 1000 for time in TIMES], pa.timestamp("us", "UTC")), "symbol": array}))
        assert [m.symbol for m in stream.cursor()] == SYMBOLS and stream.symbols() == ["A", "B"]


def test_binaries_of_any_kind(db):
    values = [b"", b"\0", b"abc", None, b"x" * 100, b"1", b"2", b"3"]
    for number, kind in enumerate((pa.binary(), pa.large_binary(), pa.binary_view())):
        stream = db.create(f"s{number}", WIDTHS)
        with stream.loader() as loader:
            loader.append_table(arrow(y=pa.array([b"cut", *values], kind).slice(1)))
        assert [m.y for m in stream.cursor()] == values


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("i8", pa.array([1] * 7 + [128])),
        ("u64", pa.array([0] * 7 + [-1])),
        ("u64", pa.array([0.0] * 7 + [0.5])),
        ("u64", pa.array([0.0] * 7 + [float("inf")])),
        ("f32", pa.array([0.0] * 7 + [0.1])),
        ("f64", pa.array([0] * 7 + [2**53 + 1])),
        ("d", pa.array([0.0] * 7 + [float("nan")])),
        ("d", pa.array([0] * 7 + [2**63 - 1])),
        ("x", pa.array([0.0] * 7 + [0.00001])),
        ("x", pa.array([0] * 7 + [2**62])),
        ("o", pa.array([0] * 7 + [-1], pa.time64("ns"))),
        ("o", pa.array([0] * 7 + [86_400_000_000], pa.int64()).cast(pa.time64("us"))),
        ("t", pa.array([0] * 7 + [2**62], pa.timestamp("s", "UTC"))),
        ("b", pa.array([0] * 8)),
        ("s", pa.array([b"x"] * 8)),
        ("s", pa.array([1] * 8)),
        ("y", pa.array(["x"] * 8)),
        ("t", pa.array([0] * 8, pa.timestamp("ns"))),
        ("t", pa.array([0] * 8, pa.duration("ns"))),
        ("i8", pa.array([[1]] * 8)),
        ("i8", pa.array([{"a": 1}] * 8)),
        ("i8", pa.array([[("a", 1)]] * 8, pa.map_(pa.string(), pa.int64()))),
        ("i8", pa.array([(1, 2, 3)] * 8, pa.month_day_nano_interval())),
        ("i8", pa.UnionArray.from_sparse(pa.array([0] * 8, pa.int8()), [pa.array(range(8))])),
        ("i8", pa.array([None] * 7 + [True], pa.bool_())),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.type),
)
def test_what_does_not_fit_is_refused_by_name(db, field, array):
    with pytest.raises(tapedb.SchemaMismatch) as caught:
        loaded(db, arrow(**{field: array}), field)
    assert caught.value.field == field and caught.value.row in (None, 0, 7), (caught.value, caught.value.row)
    assert list(db["loaded"].cursor()) == [] and db["loaded"].symbols() == []


def test_columns_without_values_are_null(db):
    assert loaded(db, arrow(i8=pa.nulls(8)), "i8") == [None] * 8


def test_run_end_encoded_columns(db):
    array = pa.RunEndEncodedArray.from_arrays(pa.array([3, 8], pa.int32()), pa.array([1, 2], pa.int8()))
    try:
        assert loaded(db, arrow(i8=array), "i8") == [1] * 3 + [2] * 5
    except tapedb.SchemaMismatch as error:
        assert error.field == "i8"


@pytest.mark.parametrize(
    "values",
    [
        np.array(["9999-01-01"] * 8, "M8[s]"),
        np.array([2**62] * 8, "M8[us]"),
        np.array([1] * 8, "M8[ps]"),
        np.array(["0001-01-01"] * 8, "M8[D]"),
        [dt.datetime(9999, 1, 1, tzinfo=dt.timezone.utc)] * 8,
        [START, "soon", *TIMES[2:]],
        [START, 1.5, *TIMES[2:]],
        [START, None, *TIMES[2:]],
        [dt.datetime(2026, 1, 5)] * 8,
        [2**64] * 8,
        [-(2**63) - 1] * 8,
        np.array([2**63] * 8, "u8"),
        [True] * 8,
        [complex(1)] * 8,
        [object()] * 8,
    ],
    ids=lambda values: f"{type(values).__name__} {values[1]!r:.40}",
)
def test_times_that_are_none(db, values):
    stream = db.create("x", "message N { }")
    with stream.loader() as loader:
        with pytest.raises((tapedb.SchemaMismatch, tapedb.Invalid)) as caught:
            loader.append_table({"time": values, "symbol": SYMBOLS})
        assert "time" in str(caught.value)
        assert loader.pending == 0
    assert list(stream.cursor()) == []


def test_coarse_and_early_times(db):
    stream = db.create("x", "message N { }")
    with stream.loader() as loader:
        for values in (np.array([0, -1], "M8[D]"), np.array([0, -1], "M8[ms]"), np.array([-(2**63) + 1, 2**63 - 1], "M8[ns]")):
            loader.append_table({"time": values, "symbol": "A"})
    day = 86_400 * 10**9
    assert sorted(m.time for m in stream.cursor()) == [-(2**63) + 1, -day, -1_000_000, 0, 0, 2**63 - 1]


@pytest.mark.parametrize(
    "table",
    [
        None, 1, "table", b"table", [1, 2], [{"time": 1}], {"time": [1]}, {}, {"time": []}, {"time": [1], "symbol": [1, 2]}, object(), int,
        {"time": [1], "symbol": ["A"], "price": [object()], "size": [1]}, {1: [1]}, np.arange(3), np.float64(1), pa.array([1]), pa.schema([]),
        {"time": np.zeros((2, 2)), "symbol": ["A"]}, {"time": [1], "symbol": [None], "price": [1], "size": [1]},
        {"time": [1], "symbol": [b"A"], "price": [1], "size": [1]}, {"time": [1], "symbol": [1], "price": [1], "size": [1]},
        {"time": [1], "symbol": ["A"], "price": [[1]], "size": [1]}, {"time": [1], "symbol": ["A"], "price": [1], "size": [{}]},
        {"time": [1], "symbol": ["\ud800"], "price": [1], "size": [1]}, {"time": [1], "symbol": ["A"], "price": [1], "size": [1], "size2": [1]},
    ],
    ids=lambda table: f"{table!r:.60}",
)
def test_what_is_no_table(db, table):
    stream = db.create("ticks", TICKS)
    with stream.loader() as loader:
        with pytest.raises((tapedb.SchemaMismatch, tapedb.Invalid, TypeError, ValueError)) as caught:
            loader.append_table(table)
        assert not isinstance(caught.value, tapedb.InternalError) and str(caught.value)
        assert loader.pending == 0 == loader.count
    assert stream.symbols() == [] and list(stream.cursor()) == []


def test_tables_that_lie(db):
    """Objects that promise Arrow and do not keep it."""

    class Raises:
        def __arrow_c_stream__(self, requested_schema=None):
            raise KeyError("no")

    class Nothing:
        def __arrow_c_stream__(self, requested_schema=None):
            return None

    class Twice:
        capsule = None

        def __arrow_c_stream__(self, requested_schema=None):
            self.capsule = self.capsule or pa.table(frame()).__arrow_c_stream__()
            return self.capsule

    def frame():
        return {"time": pa.array([1], pa.timestamp("ns", "UTC")), "symbol": ["A"], "price": [1.0], "size": [1]}

    stream = db.create("ticks", TICKS)
    with stream.loader() as loader:
        for table in (Raises(), Nothing()):
            with pytest.raises((KeyError, TypeError, ValueError)):
                loader.append_table(table)
        twice = Twice()
        assert loader.append_table(twice) == 1
        with pytest.raises((TypeError, ValueError, tapedb.Error)):
            loader.append_table(twice)
    assert stream.stats().messages == 1


def test_lengths_that_lie(db):
    class Long(list):
        def __len__(self):
            return 1 << 40

    stream = db.create("x", "message N { l: array<i64>? }")
    with stream.loader() as loader:
        loader.append("A", 1, l=Long([1, 2]))
        with pytest.raises((tapedb.Error, MemoryError, OverflowError, TypeError, ValueError)):
            loader.append_table({"time": Long([1]), "symbol": ["A"]})
    assert [m.l for m in stream.cursor()] == [[1, 2]]


def test_values_whose_code_fails(db):
    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError("hostile attribute")

        def __repr__(self):
            raise RuntimeError("hostile repr")

        def __index__(self):
            raise RuntimeError("hostile index")

        __float__ = __int__ = __iter__ = __len__ = __index__

    stream = db.create("x", WIDTHS)
    with stream.loader() as loader:
        for name in "i8 u64 f32 f64 b s y t d x o".split():
            with pytest.raises((tapedb.Error, RuntimeError)):
                loader.append("A", 1, **{name: Hostile()})
        for call in (lambda: loader.append("A", Hostile()), lambda: loader.append("A", 1, Hostile()), lambda: loader.append(Hostile(), 1)):
            with pytest.raises((tapedb.Error, RuntimeError, TypeError)):
                call()
        assert loader.pending == 0
        loader.append("A", 1, i8=1)
    assert stream.stats().messages == 1


def test_values_that_use_the_loader(db):
    """A value's own code appends to the same loader, and closes it."""
    stream = db.create("x", "message N { n: i64 }")
    load = stream.loader()

    class Appends:
        def __index__(self):
            load.append("B", 2, n=2)
            return 1

    class Closes:
        def __index__(self):
            load.close()
            return 3

    load.append("A", 1, n=Appends())
    with pytest.raises(tapedb.Closed):
        load.append("A", 3, n=Closes())
    assert sorted(m.n for m in stream.cursor()) == [1, 2]


def test_deep_and_endless_values(db):
    stream = db.create("x", "record Node { next: record<Node>?, all: array<record<Node>>? } message N { node: record<Node>? }")
    deep = None
    for _ in range(100_000):
        deep = {"next": deep}
    endless = {}
    endless["next"] = endless
    wide = {"all": []}
    wide["all"].append(wide)

    class Node:
        all = None

        @property
        def next(self):
            return self

    with stream.loader() as loader:
        for node in (deep, endless, wide, Node()):
            with pytest.raises(tapedb.SchemaMismatch, match="deep"):
                loader.append("A", 1, node=node)
        shallow = None
        for _ in range(10):
            shallow = {"next": shallow}
        loader.append("A", 2, node=shallow)
    (m,) = stream.cursor()
    assert m.node.next.next.next is not None and "next" in repr(m) and m.to_dict()["node"]
    # Python frees what is nested this deep one by one.
    while deep is not None:
        deep = deep.pop("next")


def test_schemas_of_trouble(db):
    import dataclasses

    class Empty:
        pass

    node = dataclasses.make_dataclass("Recursive", [("next", "Recursive | None")])
    sys.modules[__name__].Recursive = node
    node.__module__ = __name__

    class Names(enum.Enum):
        A = "x"

    cases = [
        Empty, int, None, [], [int], object(), "", "message", "message X {", "message X { a: i64, a: i64 }", "record X { }",
        dataclasses.make_dataclass("X", [("a", "NoSuchType")]), dataclasses.make_dataclass("X", [("a", dict)]),
        dataclasses.make_dataclass("X", [("a", list)]), dataclasses.make_dataclass("X", [("a", list[int | str])]), dataclasses.make_dataclass("X", [("a", Names), ("b", set[int])]),
        pa.schema([("a", pa.duration("s"))]), pa.schema([("a b", pa.int8())]), pa.schema([("a", pa.int8()), ("a", pa.int8())]),
        "message X { " + " ".join(f"f{i}: array<array<i64>>," for i in range(3)) + "} }", "\0", "message \u202e { a: i8 }",
    ]
    for number, schema in enumerate(cases):
        with pytest.raises((tapedb.Error, NameError, TypeError)) as caught:
            db.create(f"s{number}", schema)
        assert not isinstance(caught.value, tapedb.InternalError), schema
    assert db.streams() == []
    stream = db.create("recursive", node)
    assert "next: record<Recursive>?" in stream.schema


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.cursor(symbols=[1]), lambda s: s.cursor(symbols=7), lambda s: s.cursor(types=[None]), lambda s: s.cursor(start=[]), lambda s: s.cursor(end=float("nan")),
        lambda s: s.cursor(last=-1), lambda s: s.cursor(last=1.5), lambda s: s.cursor(from_sequence=-1), lambda s: s.cursor(resume=b"x"), lambda s: s.cursor(resume="live 99999999999999999999 ticks"),
        lambda s: s.cursor(last=1, from_sequence=1), lambda s: s.cursor(live="yes"), lambda s: s.cursor(last=2**64), lambda s: s.cursor().take(-1), lambda s: s.cursor().take("x"),
        lambda s: s.cursor(live=True).next(timeout=float("nan")), lambda s: s.cursor().next(timeout="x"), lambda s: s.cursor().next(timeout=float("-inf")), lambda s: s.cursor().seek(None),
        lambda s: s.cursor(live=True).next(timeout=-0.1), lambda s: s.table(fields=[1]).to_numpy(), lambda s: s.table(fields="nothing").to_numpy(), lambda s: s.table(["Tick"]).to_numpy(),
        lambda s: s.table(decimals=object()).to_numpy(), lambda s: s.table(decimals={"price": None}).to_numpy(), lambda s: s.table(decimals=(1, 2, 3)).to_numpy(), lambda s: s.table(decimals=-1).to_numpy(),
        lambda s: s.table(decimals=(400, 2)).to_numpy(), lambda s: s.arrow(rows=1.5), lambda s: s.arrow(rows=-1), lambda s: s.arrow(every="x"), lambda s: s.arrow(every=float("inf"), live=True),
        lambda s: s.loader(-1), lambda s: s.loader(7), lambda s: s.loader("x"), lambda s: s.loader(batch_bytes=-1), lambda s: s.loader(batch_bytes="x"), lambda s: s.delete(start=object()),
        lambda s: s.delete(start=5, end=1), lambda s: s.alter(durability=None), lambda s: s.alter(keep_for=-1), lambda s: s.alter(keep_for=float("nan")), lambda s: s.alter(keep_for=dt.timedelta(days=-1)),
        lambda s: s.rename_symbol("", ""), lambda s: s.rename_symbol(1, 2), lambda s: s.rename_symbol("AIG", "x" * 256), lambda s: s.type(1), lambda s: s.type("Nothing"), lambda s: s.compare_schema(None),
        lambda s: s._db.stream(None), lambda s: s._db.stream("a" * 10_000), lambda s: s._db.stream("../x"), lambda s: s._db.create("a\0b", TICKS), lambda s: s._db.create("", TICKS), lambda s: s._db.create(1, TICKS),
        lambda s: s._db.cursor([]), lambda s: s._db.cursor(["ticks", "ticks"]), lambda s: s._db.cursor(None), lambda s: s._db.cursor([1]), lambda s: s._db.rename("ticks", "ticks"),
        lambda s: s._db.backup(""), lambda s: s._db.backup(1), lambda s: s._db.backup(s._db.path), lambda s: s._db.topic(1), lambda s: s._db.topic("x" * 5000, TICKS), lambda s: tapedb.nanos(dt.timedelta(1)),
        lambda s: tapedb.open(""), lambda s: tapedb.open("a\0b"), lambda s: tapedb.open(1), lambda s: tapedb.open("tape://127.0.0.1:1", connections=0), lambda s: tapedb.open("tape://127.0.0.1:1", wait=-1),
        lambda s: tapedb.open("tape://127.0.0.1:999999"), lambda s: tapedb.open("tapes://127.0.0.1:1", tls_roots="/nothing"), lambda s: tapedb.open("http://127.0.0.1"), lambda s: tapedb.serve("a\0b"),
        lambda s: tapedb.serve(s._db.path), lambda s: tapedb.serve(s._db.path + "2", "nowhere"), lambda s: tapedb.serve(s._db.path + "2", "256.0.0.1:0"), lambda s: tapedb.format_time("x"), lambda s: tapedb.format_time(2**63),
        lambda s: tapedb.to_datetime("x"), lambda s: s.scan("Nothing").collect(), lambda s: s.scan(decimals=99).collect(), lambda s: next(iter(s.cursor()))["nothing"], lambda s: next(iter(s.cursor())).nothing,
    ],
    ids=lambda call: "-".join(map(str, (call.__code__.co_firstlineno, hash(call.__code__.co_code + repr(call.__code__.co_consts + call.__code__.co_names).encode()) % 10_000))),
)
def test_arguments_of_trouble(ticks, call):
    """Each is an error that is not a defect, promptly; the stream is as it was."""
    try:
        result = call(ticks)
    except (tapedb.Error, TypeError, ValueError, OverflowError, KeyError, AttributeError) as error:
        assert not isinstance(error, tapedb.InternalError) and str(error)
    else:
        # What is taken although it is strange must be harmless.
        del result
    assert ticks._db.streams() == ["ticks"] and ticks.stats().next_sequence == 100


def test_fields_of_other_classes(db):
    a, b = db.create("a", "message A { x: i64, y: string }"), db.create("b", "message B { y: i64 }")
    for stream, values in ((a, {"x": 1, "y": "s"}), (b, {"y": 2})):
        with stream.loader() as loader:
            loader.append("S", 1, **values)
    (m,), (n,) = a.cursor(), b.cursor()
    for field in (type(m).x, type(m).y):
        with pytest.raises(TypeError, match="no field"):
            field.__get__(n)
        with pytest.raises(TypeError):
            field.__get__(1)
    assert type(n).y.__get__(n) == 2


def test_predicates_of_trouble(ticks):
    scan = ticks.scan()
    predicate = pl.col("symbol") == "AIG"
    for number in range(500):
        predicate = predicate | (pl.col("size") == number)
    for predicate in (
        predicate, pl.col("time").is_null(), pl.lit(True), pl.lit(None, pl.Boolean), pl.col("symbol").is_in([]), pl.col("symbol").is_in([None]), pl.col("symbol") != "AIG",
        ~pl.col("symbol").is_in(["AIG"]), pl.col("symbol").cast(pl.String).str.contains("A"), pl.col("time") == pl.col("time"), (pl.col("symbol") == "AIG") ^ (pl.col("size") > 3),
    ):
        whole = pl.DataFrame(ticks.table()).lazy().filter(predicate).collect()
        assert scan.filter(predicate).collect().equals(whole)


def test_a_closed_database_ends_a_scan(db):
    stream = fill(db.create("ticks", TICKS))
    scan = stream.scan()
    db.close()
    with pytest.raises(Exception, match="closed"):
        scan.collect()
