"""QuestDB: a server of its own on the same cores, with tables on disk; rows come over HTTP as Parquet."""

import atexit
import contextlib
import io
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from common.command import CACHE
from common.process import INSTALL_SECONDS_MAX, free_port, output, server

from ..queries import Hour

_POM = Path(__file__).parent.parent / "questdb" / "pom.xml"
_JARS = CACHE / "questdb-jars"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_SERVER = ["java", "-XX:+UseParallelGC", "-p", str(_JARS), "-m", "io.questdb/io.questdb.ServerMain"]

_ASOF = "SELECT t.time, t.price, q.bid, q.ask FROM {0} t ASOF JOIN {1} q ON (symbol)"

_TEXTS = {
    "ohlcv": "SELECT symbol, timestamp_floor('1m', time) AS minute, first(bid) AS open, max(bid) AS high, "
    "min(bid) AS low, last(bid) AS close, sum(bid_size) AS volume, "
    "sum(bid * bid_size) / sum(bid_size) AS vwap FROM quotes",
    "window": "SELECT t.time, t.price, count() AS quotes, min(q.bid) AS bid, max(q.ask) AS ask, "
    "sum(q.bid_size) AS size FROM trades t WINDOW JOIN quotes q ON (t.symbol = q.symbol) "
    "RANGE BETWEEN 1 second PRECEDING AND 1 second FOLLOWING EXCLUDE PREVAILING",
    "last": "SELECT symbol, time, bid, ask FROM quotes LATEST ON time PARTITION BY symbol",
    "hour": "SELECT time, open, high, low, close, volume FROM history WHERE symbol = '{symbol}' "
    "AND time >= '{start}' AND time < '{end}' ORDER BY time",
    "sum": "SELECT sum(open) AS open, sum(high) AS high, sum(low) AS low, sum(close) AS close, "
    "sum(volume) AS volume FROM bars",
}


def install() -> None:
    """The jar, with Maven."""
    copied = _JARS / "pom.xml"
    if copied.exists() and copied.read_bytes() == _POM.read_bytes():
        return
    shutil.rmtree(_JARS, ignore_errors=True)
    mvn = [
        "mvn",
        "-B",
        "-q",
        "-f",
        str(_POM),
        _PLUGIN,
        "-DincludeScope=runtime",
        f"-DoutputDirectory={_JARS}",
    ]
    output(mvn, INSTALL_SECONDS_MAX)
    shutil.copyfile(_POM, copied)


class QuestDb:
    """See the module."""

    def prepare(
        self, case: str, tables: dict[str, pa.Table], folder: Path, threads: int, hour: Hour
    ) -> Callable[[], pa.Table]:
        """Tables by time, of which a day is a partition, and symbols as numbers of texts."""
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        root, files = folder / "questdb", folder / "files"
        (root / "conf").mkdir(parents=True)
        files.mkdir()
        (root / "conf" / "server.conf").write_text(_settings(port, files, threads), encoding="utf-8")
        running = contextlib.ExitStack()
        atexit.register(running.close)
        running.enter_context(server([*_SERVER, "-d", str(root)], port, folder / "server.log"))
        for name, table in tables.items():
            pq.write_table(_signed(table), files / f"{name}.parquet")
            columns = ", ".join(
                "CAST(symbol AS SYMBOL) symbol" if column == "symbol" else column
                for column in table.column_names
            )
            self._ask(
                "exec",
                f"CREATE TABLE {name} AS (SELECT {columns} FROM read_parquet('{name}.parquet')) "
                "TIMESTAMP(time) PARTITION BY DAY BYPASS WAL",
            )
        text = _TEXTS.get(case, _ASOF).format(*tables, **hour.texts())
        return lambda: pq.read_table(io.BytesIO(self._ask("exp", text, fmt="parquet")))

    def _ask(self, path: str, query: str, **options: str) -> bytes:
        parameters = urllib.parse.urlencode({"query": query, **options})
        try:
            with urllib.request.urlopen(f"{self._url}/{path}?{parameters}") as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.loads(error.read()).get("error", "it failed")) from error


def _signed(table: pa.Table) -> pa.Table:
    """Without types that QuestDB does not have."""
    for place, field in enumerate(table.schema):
        if pa.types.is_unsigned_integer(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(pa.int64()))
        elif not pa.types.is_primitive(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(pa.string()))
    return table


def _settings(port: int, files: Path, threads: int) -> str:
    settings = {
        "http.bind.to": f"127.0.0.1:{port}",
        "http.min.enabled": "false",
        "pg.enabled": "false",
        "line.tcp.enabled": "false",
        "telemetry.enabled": "false",
        "shared.worker.count": threads,
        "cairo.sql.copy.root": files,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


RIVAL = QuestDb()
