"""Tables out and in."""

import datetime as dt
from decimal import Decimal

import pytest

import tapedb
from conftest import START, TICKS, fill

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


def test_tables_of_all_libraries(any_db):
    stream = fill(any_db.create("ticks", TICKS))
    table = stream.table()
    assert list(table.columns) == ["time", "symbol", "price", "size", "venue", "note"]
    times = [START + i * 10**9 for i in range(100)]

    arrow = table.to_arrow()
    arrow.validate(full=True)
    assert arrow.num_rows == 100 and arrow["time"].cast("int64").to_pylist() == times
    assert arrow["symbol"].to_pylist()[:4] == ["AIG", "BAC", "C", "AIG"]

    polars = table.to_polars()
    assert polars.shape == (100, 6) and polars["price"].to_list()[1] == 48.01
    assert polars["time"].dtype == pl.Datetime("ns", "UTC") and polars["venue"].to_list()[:2] == [None, "X"]

    pandas = table.to_pandas()
    assert len(pandas) == 100 and str(pandas["time"].dtype) == "datetime64[ns, UTC]"
    assert pandas["symbol"].dtype == "category" and list(pandas["symbol"][:2]) == ["AIG", "BAC"]
    assert pandas["size"].dtype == "uint32" and pandas["venue"].isna().sum() == 50

    numpy = table.to_numpy()
    assert numpy["time"].dtype == "M8[ns]" and numpy["time"].view("i8").tolist() == times
    assert numpy["size"].tolist() == list(range(100)) and numpy["symbol"].tolist()[:3] == ["AIG", "BAC", "C"]
    assert numpy["note"].tolist() == [None] * 100

    duckdb = pytest.importorskip("duckdb")
    ticks = table
    assert duckdb.sql("select count(*), sum(size) from ticks").fetchall() == [(100, 4950)]
    assert duckdb.sql("select max(price) from ticks").fetchall() == [(48.99,)]
    assert table.to_duckdb().aggregate("count(*)").fetchall() == [(100,)]
    assert table.count() == 100


@pytest.mark.parametrize("count", [1, 126, 127, 128, 129, 32_766, 32_767, 32_768])
def test_categories_of_any_number(db, count):
    """Codes of categories are as narrow as their number allows; null is one more."""
    pytest.importorskip("pandas"), pytest.importorskip("numpy")
    stream = db.create("x", "message X { s: string?, e: Side? } enum Side { BUY = 0, SELL = 1 }")
    names = [f"S{i}" for i in range(count)]
    with stream.loader() as load:
        load.append_table({"time": range(count + 2), "symbol": [*names, *names[-1:], *names[:1]], "e": ["BUY", None, *["SELL"] * count]})
    frame, arrays = stream.table().to_pandas(), stream.table().to_numpy()
    assert frame["symbol"].tolist() == arrays["symbol"].tolist() == [*names, *names[-1:], *names[:1]]
    assert frame["e"].isna().tolist() == [False, True, *[False] * count] and arrays["e"].tolist() == ["BUY", None, *["SELL"] * count]
    assert frame["symbol"].cat.codes.dtype == ("int8" if count < 127 else "int16" if count < 32_767 else "int32")



def test_what_is_selected(ticks):
    names = lambda **options: list(ticks.table(**options).columns)  # noqa: E731
    assert names(fields=["size"]) == ["time", "symbol", "size"] and names(fields=[]) == ["time", "symbol"]
    assert names(fields=["size", "price"], sequences=True) == ["time", "symbol", "sequence", "size", "price"]
    rows = lambda **options: ticks.table(fields=["size"], **options).to_numpy()["size"].tolist()  # noqa: E731
    assert rows(symbols="AIG", start=START + 50 * 10**9, end=START + 60 * 10**9) == [51, 54, 57]
    assert sorted(rows(order="symbol")) == list(range(100))
    assert rows(symbols=["nothing"]) == []
    with pytest.raises(tapedb.SchemaMismatch, match="no such field"):
        ticks.table(fields=["sizes"]).to_numpy()
    with pytest.raises(tapedb.SchemaMismatch, match="no such message type"):
        ticks.table("Quote").columns
    with pytest.raises(tapedb.Invalid, match="order"):
        ticks.table(order="price")


def test_decimals(db):
    stream = db.create("prices", "message P { a: decimal64, b: decimal64?, c: decimal(18,2) }")
    with stream.loader() as load:
        load.append("A", 1, a="1.25", b=None, c="3.50")
        load.append("A", 2, a="0.1", b="7", c=4)
    assert stream.table().to_numpy()["a"].tolist() == [1.25, 0.1]
    exact = stream.table(decimals={"a": 4}).to_arrow()
    assert exact["a"].to_pylist() == [Decimal("1.2500"), Decimal("0.1000")] and exact["b"].to_pylist() == [None, 7.0]
    assert stream.table(decimals=2).to_numpy()["a"].tolist() == [Decimal("1.25"), Decimal("0.10")]
    assert stream.table(decimals=(12, 3)).to_arrow().schema.field("a").type == pa.decimal128(12, 3)
    assert stream.table(decimals="raw").to_arrow().schema.field("a").type == pa.uint64()
    with pytest.raises(tapedb.SchemaMismatch) as caught:
        stream.table(decimals={"a": 1}).to_polars()
    assert (caught.value.field, caught.value.row) == ("a", 0) and "1.25 is not exact" in str(caught.value)
    for bad in ("double", True, 39, (4, 5)):
        with pytest.raises((tapedb.Invalid, tapedb.SchemaMismatch)):
            stream.table(decimals=bad).columns
    with pytest.raises(tapedb.SchemaMismatch, match="not read"):
        stream.table(decimals={"z": 1}).columns


def test_raw_tables_are_loaded_without_loss(db):
    schema = "message P { a: decimal64? }"
    stream, copy = db.create("prices", schema), db.create("copy", schema)
    texts = ["1.50", "1.5", "NaN", "Infinity", "-Infinity", "-0.00", "9.999999999999999E+384", None]
    with stream.loader() as load:
        for i, text in enumerate(texts):
            load.append("A", i, a=text)
    with copy.loader() as load:
        assert load.append_table(stream.table(decimals="raw")) == len(texts)
    assert [str(m.a) for m in copy.cursor()] == [str(m.a) for m in stream.cursor()] == [
        "1.50", "1.5", "NaN", "Infinity", "-Infinity", "-0.00", "9.999999999999999E+384", "None"
    ]


def test_columns_are_views(ticks):
    ticks.seal()
    blocks = list(ticks.columns(fields=["size", "price", "venue"]))
    assert sum(block["size"].sum() for block in blocks) == 4950
    for block in blocks:
        for name in ("time", "size", "price"):
            assert not block[name].flags.writeable and not block[name].flags.owndata
            with pytest.raises(ValueError):
                block[name][0] = 0
    # A view outlives the cursor it came from.
    kept = next(ticks.columns(fields=["size"]))["size"]
    assert sorted(kept.tolist()) == list(range(100))


def test_nulls(db):
    stream = db.create("n", "message N { i: i32?, f: f64?, b: bool?, t: timestamp?, d: time_of_day?, s: string?, l: array<i64?>? }")
    with stream.loader() as load:
        load.append("A", 1)
        load.append("A", 2, i=5, f=1.5, b=True, t=3, d="00:00:01", s="x", l=[1, None])
    numpy = stream.table().to_numpy()
    assert numpy["i"].mask.tolist() == [True, False] and numpy["i"][1] == 5
    assert np.isnan(numpy["f"][0]) and numpy["b"].mask.tolist() == [True, False]
    assert np.isnat(numpy["t"][0]) and numpy["t"][1] == np.datetime64(3, "ns") and np.isnat(numpy["d"][0])
    assert numpy["s"].tolist() == [None, "x"] and numpy["l"].tolist() == [None, [1, None]]
    pandas = stream.table().to_pandas()
    assert pandas["i"].dtype == "Int32" and pandas["b"].dtype == "boolean" and pandas["i"].isna().tolist() == [True, False]
    assert pandas["t"].isna().tolist() == [True, False] and str(pandas["t"].dtype) == "datetime64[ns, UTC]"
    assert stream.table().to_polars().row(0)[2:] == (None,) * 7
    empty = db.create("empty", stream.schema).table()
    assert empty.to_polars().shape == (0, 9) and len(empty.to_pandas()) == 0 and empty.to_arrow().num_rows == 0
    assert all(len(column) == 0 for column in empty.to_numpy().values())


def test_nested_records_and_lists(db):
    stream = db.create(
        "books", "enum Side { BID, ASK } record L { price: decimal64, side: Side } message B { levels: array<record<L>>, best: record<L>? }"
    )
    with stream.loader() as load:
        load.append("A", 1, levels=[{"price": 1, "side": "BID"}, {"price": 2, "side": "ASK"}])
        load.append("A", 2, levels=[], best={"price": "3.5", "side": "ASK"})
    levels = [[{"price": 1.0, "side": "BID"}, {"price": 2.0, "side": "ASK"}], []]
    assert stream.table().to_arrow()["levels"].to_pylist() == levels
    assert stream.table().to_numpy()["levels"].tolist() == levels
    assert stream.table().to_pandas()["best"].tolist() == [None, {"price": 3.5, "side": "ASK"}]
    assert stream.table().to_polars()["levels"].list.len().to_list() == [2, 0]
    copy = db.create("copy", stream.schema)
    with copy.loader() as load:
        load.append_table(stream.table())
    assert [m.to_dict() for m in copy.cursor()] == [m.to_dict() for m in stream.cursor()]


def frame(count=50):
    return {
        "time": [START + i for i in range(count)],
        "symbol": ["A" if i % 2 else "B" for i in range(count)],
        "price": [i / 4 for i in range(count)],
        "size": list(range(count)),
    }


def polars(columns):
    return pl.DataFrame(columns).with_columns(pl.col("time").cast(pl.Datetime("ns", "UTC")))


def pandas(columns):
    return pd.DataFrame(columns).assign(time=lambda f: pd.to_datetime(f["time"], utc=True))


MAKERS = {
    "dict of lists": lambda columns: columns,
    "dict of arrays": lambda columns: {name: np.array(values) for name, values in columns.items()},
    "datetime64": lambda columns: {**columns, "time": np.array(columns["time"], "M8[ns]")},
    "texts": lambda columns: {**columns, "time": [tapedb.format_time(time) for time in columns["time"]]},
    "decimals": lambda columns: {**columns, "price": [Decimal(str(price)) for price in columns["price"]]},
    "structured": lambda columns: np.array(
        list(zip(*columns.values())), [("time", "i8"), ("symbol", "U4"), ("price", "f8"), ("size", "u4")]
    ),
    "polars": polars,
    "polars lazy": lambda columns: polars(columns).lazy(),
    "polars categorical": lambda columns: polars(columns).with_columns(pl.col("symbol").cast(pl.Categorical)),
    "pandas": pandas,
    "pandas index": lambda columns: pandas(columns).set_index("time"),
    "pandas category": lambda columns: pandas(columns).assign(symbol=lambda f: f["symbol"].astype("category")),
    "pyarrow": lambda columns: polars(columns).to_arrow(),
    "pyarrow reader": lambda columns: polars(columns).to_arrow().to_reader(max_chunksize=7),
    "pyarrow batch": lambda columns: polars(columns).to_arrow().to_batches()[0],
}


@pytest.mark.parametrize("kind", MAKERS)
def test_tables_that_are_loaded(any_db, kind):
    stream = any_db.create("ticks", TICKS)
    with stream.loader() as load:
        assert load.append_table(MAKERS[kind](frame())) == 50
        load.append("A", START + 1000, price=1, size=50)
        assert load.count == 51
    messages = list(stream.cursor())
    assert [m.time for m in messages] == [*(START + i for i in range(50)), START + 1000]
    assert [m.size for m in messages] == list(range(51)) and messages[3].price == Decimal("0.75")
    assert [m.symbol for m in messages[:2]] == ["B", "A"] and messages[0].venue is None


def test_names_and_zones_of_columns(db):
    stream = db.create("ticks", TICKS)
    naive = pl.DataFrame({"ts": [dt.datetime(2026, 1, 5, 14, 30)], "sym": ["A"], "price": [1.5], "size": [1]})
    with stream.loader() as load:
        with pytest.raises(tapedb.SchemaMismatch, match="say with time="):
            load.append_table(naive)
        with pytest.raises(tapedb.SchemaMismatch, match="zone"):
            load.append_table(naive, time="ts", symbol="sym")
        load.append_table(naive, time="ts", symbol="sym", zone="UTC")
        load.append_table(naive, time="ts", symbol="sym", zone="Europe/Berlin")
        load.append_table(naive.with_columns(ts=pl.col("ts").dt.date()), time="ts", symbol="sym")
        with pytest.raises(tapedb.Invalid, match="zone"):
            load.append_table(naive, time="ts", symbol="sym", zone="Moon/Base")
    assert sorted(m.time - START for m in stream.cursor()) == [-52_200 * 10**9, -3_600 * 10**9, 0]


@pytest.mark.parametrize(
    ("change", "field", "row"),
    [
        (lambda f: f.with_columns(size=pl.lit("x")), "size", 0),
        (lambda f: f.with_columns(size=pl.when(pl.col("size") == 7).then(-1).otherwise(pl.col("size"))), "size", 7),
        (lambda f: f.with_columns(size=pl.when(pl.col("size") == 7).then(None).otherwise(pl.col("size"))), "size", 7),
        (lambda f: f.with_columns(price=pl.when(pl.col("size") == 49).then(float("nan")).otherwise(pl.col("price"))), "price", 49),
        (lambda f: f.with_columns(symbol=pl.when(pl.col("size") == 3).then(pl.lit("")).otherwise(pl.col("symbol"))), "symbol", 3),
        (lambda f: f.with_columns(time=pl.when(pl.col("size") == 3).then(None).otherwise(pl.col("time"))), "time", 3),
        (lambda f: f.with_columns(bid=pl.lit(1)), "bid", None),
        (lambda f: f.drop("price"), "price", None),
        (lambda f: f.with_columns(venue=pl.lit("TOOLONG")), "venue", 0),
    ],
)
def test_a_table_that_does_not_fit_is_not_half_stored(any_db, change, field, row):
    stream = any_db.create("ticks", TICKS)
    table = pl.DataFrame(frame()).with_columns(pl.col("time").cast(pl.Datetime("ns", "UTC")))
    with stream.loader() as load:
        with pytest.raises(tapedb.SchemaMismatch) as caught:
            load.append_table(change(table))
        assert caught.value.field == field and (row is None or caught.value.row == row), caught.value
    assert list(stream.cursor()) == []


def in_pieces(rows, pieces=5, **changed):
    """A table of several record batches, with some values changed by column and row."""
    columns = frame(rows)
    for name, (row, value) in changed.items():
        columns[name][row] = value
    table = pa.table({**columns, "time": pa.array(columns["time"], pa.timestamp("ns", "UTC"))})
    size = rows // pieces
    return pa.concat_tables([table.slice(at, size) for at in range(0, rows, size)])


BAD_IN_THE_LAST_PIECE = [
    {"size": (49, -1)},
    {"price": (49, float("nan"))},
    {"symbol": (49, "")},
    {"symbol": (49, "x" * 256)},
    {"time": (49, None)},
    {"size": (49, 1 << 40)},
]


@pytest.mark.parametrize("changed", BAD_IN_THE_LAST_PIECE)
@pytest.mark.parametrize("shape", [lambda table: table, pl.from_arrow, lambda table: table.to_reader()], ids=["table", "polars", "reader"])
def test_of_a_table_in_pieces_all_or_nothing_is_stored(any_db, changed, shape):
    """The row is that of the whole table, and no symbol, message or row of an earlier piece is left."""
    stream = any_db.create("ticks", TICKS)
    table = in_pieces(50, **changed)
    assert table.column(0).num_chunks == 5
    (field, (row, _)), = changed.items()
    with stream.loader() as load:
        with pytest.raises(tapedb.SchemaMismatch) as caught:
            load.append_table(shape(table))
        assert (caught.value.field, caught.value.row) == (field, row), caught.value
        assert load.pending == 0 and load.count == 0
        assert load.append_table(shape(in_pieces(50))) == 50
    assert [m.size for m in stream.cursor()] == list(range(50))


def test_a_table_may_be_appended_piece_by_piece(any_db):
    """`whole=False` is for readers that do not fit into memory: a batch is taken when the one before it was appended."""
    stream, taken = any_db.create("ticks", TICKS), []
    table = in_pieces(50, size=(49, -1))

    def batches():
        for batch in table.to_batches():
            taken.append(load.count)
            yield batch

    with stream.loader() as load:
        reader = pa.RecordBatchReader.from_batches(table.schema, batches())
        with pytest.raises(tapedb.SchemaMismatch) as caught:
            load.append_table(reader, whole=False)
        assert (caught.value.field, caught.value.row, load.count) == ("size", 49, 40)
    assert taken == [0, 10, 20, 30, 40] and [m.size for m in stream.cursor()] == list(range(40))


def test_pieces_out_of_order_are_refused_whole(any_db):
    stream = any_db.create("refusing", TICKS, late="refuse")
    table = in_pieces(50)
    with stream.loader() as load:
        with pytest.raises(tapedb.SchemaMismatch, match="late") as caught:
            load.append_table(pa.concat_tables([table.slice(10, 40), table.slice(0, 10)]))
        assert (caught.value.field, caught.value.row) == ("time", 40) and load.count == 0
        assert load.append_table(table) == 50
    assert [m.size for m in stream.cursor()] == list(range(50))


def test_an_error_of_a_reader_stores_nothing(db):
    stream, table = db.create("ticks", TICKS), in_pieces(50)

    def batches():
        yield from table.to_batches()[:3]
        raise RuntimeError("the source failed")

    with stream.loader() as load:
        with pytest.raises(tapedb.Error, match="the source failed"):
            load.append_table(pa.RecordBatchReader.from_batches(table.schema, batches()))
        assert load.count == 0
    assert list(stream.cursor()) == []


def test_unsorted_and_empty_tables(db):
    stream = db.create("ticks", TICKS)
    columns = frame()
    shuffled = [(i * 37) % 50 for i in range(50)]
    with stream.loader() as load:
        load.append_table({name: [values[i] for i in shuffled] for name, values in columns.items()})
        assert load.append_table(polars(columns).head(0)) == 0
        assert load.append_table(polars({name: values[:0] for name, values in columns.items()}).with_columns(price=0.0, size=0)) == 0
        with pytest.raises(tapedb.SchemaMismatch):
            load.append_table({})
        with pytest.raises(TypeError, match="not a table"):
            load.append_table(7)
        with pytest.raises(tapedb.SchemaMismatch, match="one length"):
            load.append_table({**columns, "size": [1]})
    assert [m.size for m in stream.cursor()] == list(range(50))
    refusing = db.create("refusing", TICKS, late="refuse")
    with refusing.loader() as load, pytest.raises(tapedb.SchemaMismatch, match="late"):
        load.append_table({name: [values[i] for i in shuffled] for name, values in columns.items()})
    assert list(refusing.cursor()) == []


def test_schemas_of_arrow(db):
    table = polars(frame())
    stream = db.create("my_ticks", table.to_arrow().schema)
    assert stream.schema == "message MyTicks {\n    price: f64?,\n    size: i64?,\n}\n"
    with stream.loader() as load:
        load.append_table(table)
    assert stream.table().to_polars()["size"].to_list() == list(range(50))
    assert db.create("other", table, message="Tick").types == ["Tick"]
    assert db.create("third", table.schema).schema.startswith("message Third")
    with pytest.raises(tapedb.SchemaMismatch, match="no counterpart"):
        db.create("bad", pa.schema([("x", pa.duration("ns"))]))


def test_polars_scans_push_down(ticks, monkeypatch):
    asked = []
    arrow = type(ticks).arrow

    def spy(self, type=None, fields=None, **filters):
        asked.append((fields, filters["start"], filters["end"], filters["symbols"]))
        return arrow(self, type, fields, **filters)

    monkeypatch.setattr(type(ticks), "arrow", spy)
    frame = ticks.scan()
    assert frame.collect_schema().names() == ["time", "symbol", "price", "size", "venue", "note"] and not asked
    at = lambda second: dt.datetime(2026, 1, 5, 14, 30, second, tzinfo=dt.timezone.utc)  # noqa: E731
    assert frame.collect().shape == (100, 6) and asked[-1] == (["price", "size", "venue", "note"], None, None, None)
    assert frame.select("size").collect()["size"].to_list() == list(range(100)) and asked[-1][0] == ["size"]
    found = frame.filter(pl.col("time") >= at(10), pl.col("time") < at(20), pl.col("symbol") == "AIG").select("size").collect()
    assert found["size"].to_list() == [12, 15, 18] and asked[-1] == (["size"], START + 10 * 10**9, START + 20 * 10**9, ["AIG"])
    found = frame.filter(pl.col("time").is_between(at(10), at(20)) & pl.col("symbol").is_in(["AIG", "C"]) & (pl.col("price") > 48.15))
    assert found.select("size").collect()["size"].to_list() == [17, 18, 20]
    assert asked[-1] == (["price", "size"], START + 10 * 10**9, START + 20 * 10**9 + 1000, ["AIG", "C"])
    # What is not understood is not pushed down, and filtered all the same.
    found = frame.filter((pl.col("symbol") == "AIG") | (pl.col("size") > 97)).select(pl.len()).collect().item()
    assert found == 35 and asked[-1][1:] == (None, None, None)
    assert frame.filter((pl.col("symbol") == "AIG") | (pl.col("symbol") == "C")).collect().height == 67
    assert asked[-1][3] == ["AIG", "C"]
    assert frame.filter(pl.col("symbol") == "AIG", pl.col("symbol") == "C").collect().height == 0
    assert frame.head(7).collect()["size"].to_list() == list(range(7))
    assert frame.filter(pl.col("time") > at(58)).select("size", "price").head(2).collect().rows() == [(59, 48.59), (60, 48.6)]
    grouped = frame.group_by("symbol").agg(pl.col("size").sum()).collect()
    assert grouped["size"].sum() == 4950


def test_batches(ticks):
    (batch,) = ticks.arrow(fields=["size"])
    assert len(batch) == 100 and batch.column_names == ["time", "symbol", "size"] and batch["size"].sum() == 4950
    assert pa.record_batch(batch).num_rows == 100 and pl.DataFrame(batch).height == 100
    assert batch.to_polars().height == len(batch.to_pandas()) == batch.to_arrow().num_rows == 100
    assert "100 rows" in repr(batch) and "<table>" in batch._repr_html_()
    with pytest.raises(KeyError, match="no column"):
        batch["nothing"]


def test_progress(ticks, capsys):
    assert ticks.table(progress=True).to_polars().height == 100
    with ticks.loader() as load:
        load.append_table(polars(frame()), progress=True)
    assert "100" in capsys.readouterr().err


def test_tables_as_people_have_them(db):
    """What a frame has as its index, one symbol for all rows, one field as a text, a stream itself."""
    stream = db.create("ticks", TICKS)
    index = pd.DatetimeIndex(["2026-01-05T14:30"], tz="UTC")
    with stream.loader() as load:
        assert load.append_table(pd.DataFrame({"symbol": ["A"], "price": [1.5], "size": [1]}, index=index)) == 1
        assert load.append_table(pd.DataFrame({"symbol": ["A"], "price": [1.5], "size": [1]}, index=index), time="ts") == 1
        assert load.append_table({"time": [START, START + 1], "symbol": "AIG", "price": 2, "size": np.array([5, 6])}) == 2
        with pytest.raises(tapedb.SchemaMismatch, match="single values"):
            load.append_table({"time": 1, "symbol": "A", "price": 1, "size": 1})
        with pytest.raises(tapedb.SchemaMismatch, match='zone="UTC"'):
            load.append_table(pd.DataFrame({"symbol": ["A"], "price": [1.5], "size": [1]}, index=index.tz_localize(None)))
        with pytest.raises(TypeError, match="Series.* is not a table"):
            load.append_table(pl.Series([1]))
    assert [(m.symbol, m.size) for m in stream.cursor()] == [("A", 1), ("A", 1), ("AIG", 5), ("AIG", 6)]
    assert list(stream.table(fields="size").columns) == ["time", "symbol", "size"]
    assert pl.DataFrame(stream).shape == (4, 6) and pa.table(stream).num_rows == 4
    copy = db.create("copy", stream)
    assert copy.schema == stream.schema
    with copy.loader() as load:
        assert load.append_table(stream) == 4
    assert copy.table().to_polars().equals(stream.table().to_polars())
    both = db.create("both", "message A { x: u8 }\nmessage B { x: u8 }")
    with pytest.raises(tapedb.Invalid, match="several message types"):
        pa.table(both)
