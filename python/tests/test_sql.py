"""Queries in SQL: on the server of a database, and in this process if the module was built for it."""

import asyncio
import datetime
import decimal
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import tapedb
from conftest import START, TICKS, fill
from tapedb import _tapedb


@pytest.fixture(params=["here", "server"])
def ticks(request, tmp_path):
    """A database with ticks that queries run on."""
    if request.param == "here":
        if not _tapedb.has_sql:
            pytest.skip("the module was built without SQL")
        place = tmp_path / "db"
    else:
        place = request.getfixturevalue("sql_server")
    with tapedb.open(place) as db:
        fill(db.create("ticks", TICKS))
        yield db
    with tapedb.open(place) as db:
        db.delete("ticks")


def test_rows_come_as_frames_and_tables(ticks):
    text = "SELECT time, symbol, price, size FROM ticks WHERE symbol = 'AIG' ORDER BY time"
    query = ticks.sql(text)
    assert list(query.columns) == ["time", "symbol", "price", "size"]
    sizes = list(range(0, 100, 3))
    for _ in range(2):
        assert query.to_numpy()["size"].tolist() == sizes
    assert query.count() == len(sizes)
    assert sum(len(batch) for batch in query) == len(sizes)
    polars = pytest.importorskip("polars")
    frame = query.to_polars()
    assert frame["size"].to_list() == sizes and frame["time"].dtype == polars.Datetime("ns", "UTC")
    assert query.to_pandas()["price"].tolist() == [float(f"48.{size:02}") for size in sizes]
    table = query.to_arrow()
    assert table.num_rows == len(sizes) and table["symbol"].to_pylist() == ["AIG"] * len(sizes)
    assert polars.DataFrame(ticks.sql(text)).equals(frame)
    assert "size" in repr(query) and "AIG" in query._repr_html_()


def test_types_of_results(ticks):
    query = ticks.sql(
        "SELECT count(*) AS n, max(time) - min(time) AS span, sum(price) AS total, bool_or(size > 98) AS b, NULL AS nothing, "
        "array_agg(size ORDER BY size) FILTER (WHERE size < 3) AS sizes FROM ticks",
        decimals=(18, 2),
    )
    row = {name: values.tolist()[0] for name, values in query.to_numpy().items() if name != "span"}
    total = sum(decimal.Decimal(f"48.{i:02}") for i in range(100))
    assert row == {"n": 100, "total": total, "b": True, "nothing": None, "sizes": [0, 1, 2]}
    assert query.to_numpy()["span"].astype("i8").tolist() == [99_000_000_000]


def test_parameters(ticks):
    def sizes(text, params):
        return ticks.sql(f"SELECT size FROM ticks WHERE {text} ORDER BY size", params).to_numpy()["size"].tolist()

    assert sizes("symbol = $1 AND size < $2", ["AIG", 10]) == [0, 3, 6, 9]
    assert sizes("symbol = $symbol AND size < $most", {"symbol": "AIG", "$most": 10}) == [0, 3, 6, 9]
    np = pytest.importorskip("numpy")
    assert sizes("size < $1", [np.int64(3)]) == [0, 1, 2]
    at = datetime.datetime.fromtimestamp(START / 1e9 + 2, datetime.timezone.utc)
    assert sizes("time <= $1", [at]) == sizes("time <= $1", [np.datetime64(START + 2_000_000_000, "ns")]) == [0, 1, 2]
    assert sizes("price = $1", [48.05]) == [5] and sizes("venue = $1 AND size < 4", ["X"]) == [1, 3]
    assert sizes("venue = $1", [None]) == []
    assert sizes("symbol = $1", ["A' OR '1' = '1"]) == []
    with pytest.raises(tapedb.Invalid):
        ticks.sql("SELECT $1", "AIG")
    with pytest.raises(tapedb.QueryError):
        ticks.sql("SELECT size FROM ticks WHERE size = $1 AND symbol = $2", [1])


def test_errors(ticks):
    with pytest.raises(tapedb.QueryError, match="ticks") as caught:
        ticks.sql("SELECT size FROM tics")
    assert caught.value.reason == "query"
    with pytest.raises(tapedb.QueryError) as caught:
        ticks.sql("SELECT CAST(symbol AS INT) FROM ticks").to_numpy()
    assert caught.value.reason == "value"
    with pytest.raises(tapedb.QueryError) as caught:
        ticks.sql("SELECT size FROM ticks", max_rows=7).to_numpy()
    assert caught.value.reason == "limit"
    with pytest.raises(tapedb.Invalid):
        ticks.sql("SELECT 1", time_limit=-1)
    rows = ticks.sql("SELECT size FROM ticks")
    ticks.close()
    with pytest.raises(tapedb.Closed):
        rows.to_numpy()


ENDLESS = "SELECT sum(a.size * b.size * c.size * d.size) FROM ticks a, ticks b, ticks c, ticks d, ticks e"


def test_a_long_query_ends_by_its_limit_or_by_a_signal(ticks):
    with pytest.raises(tapedb.QueryError) as caught:
        ticks.sql(ENDLESS, time_limit=0.2).to_numpy()
    assert caught.value.reason == "limit"
    for read in ("to_numpy", "to_polars"):
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            getattr(ticks.sql(ENDLESS), read)()
        timer.join()
        assert time.monotonic() - begun < 5
    assert ticks.sql("SELECT count(*) AS n FROM ticks").to_numpy()["n"].tolist() == [100]


def test_queries_of_threads(ticks):
    found = []

    def count():
        found.append(ticks.sql("SELECT sum(size) AS n FROM ticks").to_numpy()["n"].item())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4950] * 4

    async def together():
        return await asyncio.gather(*(asyncio.to_thread(ticks.sql("SELECT 1 AS one").count) for _ in range(3)))

    assert asyncio.run(together()) == [1, 1, 1]


def test_a_build_without_sql_states_what_to_do(db):
    if _tapedb.has_sql:
        pytest.skip("the module was built with SQL")
    with pytest.raises(tapedb.Unavailable, match="released wheel"):
        db.sql("SELECT 1")


def test_pandas_own_tests_of_its_asof_join(sql_server, tmp_path):
    """With the rows that TapeDB finds."""
    pytest.importorskip("pandas")
    counts, settings = tmp_path / "counts", tmp_path / "pytest.ini"
    settings.write_text("[pytest]\n")
    here = pathlib.Path(__file__).parent
    environment = os.environ | {"TAPEDB_ASOF_URL": sql_server, "TAPEDB_ASOF_COUNTS": str(counts), "PYTHONPATH": str(here)}
    command = ["-m", "pytest", "-c", settings, "--rootdir", tmp_path, "-q", "-p", "no:cacheprovider", "-p", "pandas_asof"]
    command += ["--pyargs", "pandas.tests.reshape.merge.test_merge_asof"]
    done = subprocess.run([sys.executable, *command], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    counts = json.loads(counts.read_text())
    assert counts["tapedb"] >= 100 and counts["tapedb"] > 10 * (sum(counts.values()) - counts["tapedb"]), counts
