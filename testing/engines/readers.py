"""The engines: each counts and sums a table, and states how many rows it read for one symbol of one day."""

import json
import os
import re
import subprocess
import time
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

from stores import BUCKET, Stores

TOTALS = """select count(*), sum(price), sum(size), sum(delta), min(time_ns), max(time_ns), count(*) - count(note), count(distinct symbol),
 sum(at_ns), sum(case when side = 'SELL' then 1 else 0 end) from {table}"""
ONE = """select count(price) from {table} where symbol = '{symbol}' and time >= timestamp '{day} 00:00:00{zone}'
 and time < timestamp '{day} 00:00:00{zone}' + interval '1' day"""
ENTRIES = "select count(*), count(levels_index), sum(levels_size), count(distinct case when levels_index is not null then sequence end) from {table}"
TOTAL_NAMES = ["count", "price", "size", "delta", "first", "last", "null_notes", "symbols", "at", "sells"]


def plain(name: str, value: Any) -> Any:
    """Numbers as Python has them exactly."""
    if name == "price":
        return Decimal(str(value))
    return int(value)


class Engine:
    """What all have."""

    name = ""
    kinds: tuple[str, ...] = ("folder",)

    def __init__(self, home: Path, folder: Path, stores: Stores) -> None:
        self.home, self.folder, self.stores = home, folder, stores

    def location(self, table: str) -> Path:
        """The folder of a table of the folder catalogue."""
        return self.folder / "lake" / "default" / table

    def totals(self, kind: str, table: str) -> dict:
        """Counts and sums of all rows."""
        raise NotImplementedError

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        """Rows of a symbol and day, and rows that were read for it."""
        raise NotImplementedError

    def entries(self, kind: str, table: str) -> dict | None:
        """Counts of the flattened table."""
        return None

    def delta(self, table: str) -> Path:
        """The folder of a Delta table."""
        return self.folder / "delta" / table

    def maintain(self, kind: str, table: str) -> str:
        """Does what the engine can do for a table, and states what; empty: nothing."""
        return ""

    def close(self) -> None:
        """Ends what was started."""


class DuckDb(Engine):
    """DuckDB, with its extensions for Iceberg and Delta."""

    name = "duckdb"
    kinds = ("folder", "delta")

    def __init__(self, home: Path, folder: Path, stores: Stores) -> None:
        super().__init__(home, folder, stores)
        import duckdb

        self.connection = duckdb.connect()
        for extension in ["avro", "httpfs", "iceberg", "delta"]:
            module = __import__(f"duckdb_extension_{extension}")
            (file,) = Path(module.__file__).parent.rglob(f"{extension}.duckdb_extension")
            self.connection.execute(f"load '{file}'")
        self.connection.execute("set timezone = 'UTC'")

    def table(self, kind: str, table: str) -> str:
        if kind == "delta":
            return f"delta_scan('file://{self.delta(table)}')"
        return f"iceberg_scan('{self.location(table)}')"

    def totals(self, kind: str, table: str) -> dict:
        row = self.connection.execute(TOTALS.format(table=self.table(kind, table))).fetchone()
        found = {name: plain(name, value) for name, value in zip(TOTAL_NAMES, row)}
        levels = f"select sum(len(levels)), sum(list_sum(list_transform(levels, lambda l: l.size))) from {self.table(kind, table)}"
        found["levels"], found["level_sizes"] = map(int, self.connection.execute(levels).fetchone())
        return found

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        query = ONE.format(table=self.table(kind, table), symbol=symbol, day=day, zone="+00").replace("timestamp '", "timestamptz '")
        (rows,) = self.connection.execute(query).fetchone()
        # Its profile counts the rows of whole files.
        reader = DeltaRs if kind == "delta" else PyIceberg
        return rows, reader(self.home, self.folder, self.stores).one(kind, table, symbol, day)[1]

    def entries(self, kind: str, table: str) -> dict:
        row = self.connection.execute(ENTRIES.format(table=self.table(kind, table))).fetchone()
        return dict(zip(["rows", "levels", "level_sizes", "messages_with_entries"], map(int, row)))


class ArrowEngine(Engine):
    """Engines whose tables are Arrow's."""

    def rows(self, kind: str, table: str) -> Any:
        """All rows, as a table of Arrow."""
        raise NotImplementedError

    def totals(self, kind: str, table: str) -> dict:
        import pyarrow.compute as pc

        rows = self.rows(kind, table)
        levels = pc.list_flatten(rows["levels"])
        sizes = pc.struct_field(levels, "size")
        return {
            "count": rows.num_rows,
            "price": Decimal(pc.sum(rows["price"]).as_py()),
            "size": int(pc.sum(rows["size"]).as_py()),
            "delta": pc.sum(rows["delta"]).as_py(),
            "first": pc.min(rows["time_ns"]).as_py(),
            "last": pc.max(rows["time_ns"]).as_py(),
            "null_notes": rows["note"].null_count,
            "symbols": len(pc.unique(rows["symbol"])),
            # Longer than 64 bits.
            "at": sum(value for value in rows["at_ns"].to_pylist() if value is not None),
            "sells": pc.sum(pc.equal(rows["side"], "SELL")).as_py(),
            "levels": len(levels),
            "level_sizes": int(pc.sum(sizes).as_py()),
        }

    def entries(self, kind: str, table: str) -> dict:
        import pyarrow.compute as pc

        rows = self.rows(kind, table)
        some = pc.filter(rows["sequence"], pc.is_valid(rows["levels_index"]))
        return {
            "rows": rows.num_rows,
            "levels": rows.num_rows - rows["levels_index"].null_count,
            "level_sizes": int(pc.sum(rows["levels_size"]).as_py()),
            "messages_with_entries": len(pc.unique(some)),
        }


def rows_of_groups(urls: list[str], symbol: str, stores: Stores) -> int:
    """Rows of the row groups whose statistics have a symbol: what a reader that goes by them reads."""
    import pyarrow.parquet as pq
    from pyarrow.fs import S3FileSystem

    read = 0
    for url in urls:
        place, _, path = url.rpartition("://")
        filesystem = S3FileSystem(endpoint_override=stores.endpoint) if place == "s3" else None
        metadata = pq.ParquetFile(path, filesystem=filesystem).metadata
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(2).statistics
            if statistics.min <= symbol <= statistics.max:
                read += metadata.row_group(group).num_rows
    return read


class DeltaRs(ArrowEngine):
    """delta-rs, the implementation in Rust, by way of its package for Python."""

    name = "deltalake"
    kinds = ("delta", "s3")

    def url(self, kind: str, table: str) -> str:
        return f"s3://{BUCKET}/delta/{table}" if kind == "s3" else f"file://{self.delta(table)}"

    def table(self, kind: str, table: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.url(kind, table))

    def rows(self, kind: str, table: str) -> Any:
        return self.table(kind, table).to_pyarrow_table()

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        opened = self.table(kind, table)
        where = (pc.field("symbol") == symbol) & (pc.field("time_day") == pc.scalar(day).cast(pa.date32()))
        rows = opened.to_pyarrow_dataset().count_rows(filter=where)
        # Of files, those whose statistics in the log have day and symbol.
        files = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
        # Long symbols have no bounds.
        bounded = lambda file: file.get("min.symbol") is None or file["min.symbol"] <= symbol <= file["max.symbol"]
        chosen = [file for file in files if str(file["partition.time_day"]) == day and bounded(file)]
        return rows, rows_of_groups([f"{self.url(kind, table)}/{file['path']}" for file in chosen], symbol, self.stores)

    def maintain(self, kind: str, table: str) -> str:
        opened = self.table(kind, table)
        done = opened.optimize.compact()
        opened.create_checkpoint()
        opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        return f"replaced {done['numFilesRemoved']} files by {done['numFilesAdded']}, wrote a checkpoint, and removed old files"


class PyIceberg(ArrowEngine):
    """pyiceberg, which reads with pyarrow."""

    name = "pyiceberg"
    kinds = ("folder", "sql", "rest")

    def table(self, kind: str, table: str) -> Any:
        from pyiceberg.catalog.rest import RestCatalog
        from pyiceberg.catalog.sql import SqlCatalog
        from pyiceberg.table import StaticTable

        if kind == "folder":
            version = (self.location(table) / "metadata" / "version-hint.text").read_text()
            return StaticTable.from_metadata(str(self.location(table) / "metadata" / f"v{version}.metadata.json"))
        if kind == "rest":
            keys = {"s3.access-key-id": "test", "s3.secret-access-key": "test", "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
            return RestCatalog("rest", uri=self.stores.rest, warehouse=BUCKET, **keys).load_table(f"default.{table}")
        uri, warehouse = f"sqlite:///{self.folder}/catalog.db", f"file://{self.folder}/sql"
        return SqlCatalog("lake", uri=uri, warehouse=warehouse).load_table(f"default.{table}")

    def rows(self, kind: str, table: str) -> Any:
        return self.table(kind, table).scan().to_arrow()

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        where = f"symbol = '{symbol}' and time >= '{day}T00:00:00+00:00' and time <= '{day}T23:59:59.999999+00:00'"
        scan = self.table(kind, table).scan(row_filter=where)
        rows = scan.to_arrow().num_rows
        # It counts no rows that it reads.
        return rows, rows_of_groups([task.file.file_path for task in scan.plan_files()], symbol, self.stores)


class Polars(PyIceberg):
    """Polars, by way of tables of pyiceberg and delta-rs, and readers of its own."""

    name = "polars"
    kinds = ("folder", "sql", "delta")

    def frame(self, kind: str, table: str) -> Any:
        import polars as pl

        if kind == "delta":
            return pl.scan_delta(f"file://{self.delta(table)}")
        return pl.scan_iceberg(self.table(kind, table))

    def totals(self, kind: str, table: str) -> dict:
        import polars as pl

        frame = self.frame(kind, table).select(
            count=pl.len(),
            price=pl.col("price").sum(),
            size=pl.col("size").cast(pl.Decimal(38, 0)).sum(),
            delta=pl.col("delta").cast(pl.Int64).sum(),
            first=pl.col("time_ns").min(),
            last=pl.col("time_ns").max(),
            null_notes=pl.col("note").null_count(),
            symbols=pl.col("symbol").n_unique(),
            at=pl.col("at_ns").cast(pl.Int128).sum(),
            sells=(pl.col("side") == "SELL").sum(),
            levels=pl.col("levels").list.len().cast(pl.Int64).sum(),
        )
        found = {name: plain(name, column[0]) for name, column in frame.collect().to_dict(as_series=False).items()}
        sizes = self.frame(kind, table).select(pl.col("levels").explode().struct.field("size").cast(pl.Decimal(38, 0)).sum())
        return found | {"level_sizes": int(sizes.collect().item())}

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        import polars as pl

        at = pl.lit(day).str.to_datetime("%Y-%m-%d", time_unit="us", time_zone="UTC")
        wanted = (pl.col("symbol") == symbol) & (pl.col("time") >= at) & (pl.col("time") < at.dt.offset_by("1d"))
        rows = self.frame(kind, table).filter(wanted).select(pl.len()).collect().item()
        if kind == "delta":
            return rows, DeltaRs(self.home, self.folder, self.stores).one(kind, table, symbol, day)[1]
        return rows, super().one(kind, table, symbol, day)[1]

    def entries(self, kind: str, table: str) -> dict | None:
        return super().entries(kind, table) if kind != "delta" else None


class Spark(Engine):
    """PySpark, with the runtimes of Iceberg and Delta: folders, and the SQLite database through JDBC."""

    name = "spark"
    kinds = ("folder", "sql", "delta")

    def __init__(self, home: Path, folder: Path, stores: Stores) -> None:
        super().__init__(home, folder, stores)
        from pyspark.sql import SparkSession

        jars = [str(jar) for jar in (home / "jars").glob("*.jar") if "nessie" not in jar.name]
        settings = {
            "spark.jars": ",".join(jars),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.catalog.folder": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.folder.type": "hadoop",
            "spark.sql.catalog.folder.warehouse": f"{folder}/lake",
            "spark.sql.catalog.folder.cache-enabled": "false",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder}/catalog.db",
            "spark.sql.catalog.lake.warehouse": f"{folder}/sql",
            "spark.sql.catalog.lake.cache-enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "4",
        }
        builder = SparkSession.builder.master("local[2]").appName("tables")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def table(self, kind: str, table: str) -> str:
        if kind == "delta":
            return f"delta.`{self.delta(table)}`"
        return f"{'folder' if kind == 'folder' else 'lake'}.`default`.{table}"

    def totals(self, kind: str, table: str) -> dict:
        name = self.table(kind, table)
        # Sums of longs would overflow.
        query = TOTALS.replace("sum(at_ns)", "sum(cast(at_ns as decimal(30,0)))").format(table=name)
        row = self.spark.sql(query).collect()[0]
        found = {key: plain(key, value) for key, value in zip(TOTAL_NAMES, row)}
        entries = f"select count(*), sum(l.size) from {name} lateral view explode(levels) as l"
        found["levels"], found["level_sizes"] = map(int, self.spark.sql(entries).collect()[0])
        return found

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        query = ONE.format(table=self.table(kind, table), symbol=symbol, day=day, zone="")
        frame = self.spark.sql(query)
        rows = frame.collect()[0][0]
        # The scan's own count of rows, after row groups were left out.
        plan = frame._jdf.queryExecution().executedPlan()
        return rows, self.output_rows(plan)

    def output_rows(self, plan: Any) -> int:
        name = plan.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            return self.output_rows(plan.executedPlan())
        if name.endswith("QueryStageExec"):
            return self.output_rows(plan.plan())
        if name in ("BatchScanExec", "FileSourceScanExec"):
            return int(plan.metrics().apply("numOutputRows").value())
        children = plan.children()
        return sum(self.output_rows(children.apply(index)) for index in range(children.size()))

    def entries(self, kind: str, table: str) -> dict:
        row = self.spark.sql(ENTRIES.format(table=self.table(kind, table))).collect()[0]
        return dict(zip(["rows", "levels", "level_sizes", "messages_with_entries"], map(int, row)))

    def maintain(self, kind: str, table: str) -> str:
        if kind == "delta":
            self.spark.sql(f"optimize {self.table(kind, table)}").collect()
            self.spark.sql(f"vacuum {self.table(kind, table)} retain 0 hours").collect()
            return "optimized and vacuumed"
        name = f"default.{table}"
        self.spark.sql(f"call folder.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))").collect()
        self.spark.sql(f"call folder.system.rewrite_manifests('{name}')").collect()
        self.spark.sql(f"call folder.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)").collect()
        return "rewrote data files and manifests, and expired snapshots"

    def close(self) -> None:
        self.spark.stop()


class Trino(Engine):
    """Trino, with the tables of the folder registered in a metastore of files."""

    name = "trino"
    PORT = 18_080

    def __init__(self, home: Path, folder: Path, stores: Stores) -> None:
        super().__init__(home, folder, stores)
        self.server = home / "trino-server-476"
        etc = folder / "trino" / "etc"
        (etc / "catalog").mkdir(parents=True)
        data = folder / "trino" / "data"
        (etc / "node.properties").write_text(f"node.environment=test\nnode.id=one\nnode.data-dir={data}\n")
        (etc / "jvm.config").write_text("-server\n-Xmx2G\n")
        (etc / "config.properties").write_text(
            f"coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={self.PORT}\n"
            f"discovery.uri=http://localhost:{self.PORT}\nweb-ui.enabled=false\n"
        )
        (etc / "catalog" / "lake.properties").write_text(
            "connector.name=iceberg\niceberg.catalog.type=TESTING_FILE_METASTORE\n"
            f"hive.metastore.catalog.dir=file://{folder}/trino/metastore\nfs.hadoop.enabled=true\n"
            "iceberg.register-table-procedure.enabled=true\n"
        )
        environment = os.environ | {"JAVA_HOME": os.environ["JAVA_25"], "PATH": f"{os.environ['JAVA_25']}/bin:{os.environ['PATH']}"}
        log = (folder / "trino.log").open("w")
        launcher = [self.server / "bin" / "launcher", "run", "--etc-dir", etc]
        self.process = subprocess.Popen(launcher, env=environment, stdout=log, stderr=log)
        self.wait()
        self.registered: set[str] = set()
        self.ask("create schema if not exists lake.tables")

    def wait(self) -> None:
        for _ in range(180):
            time.sleep(1)
            try:
                if self.ask("select count(*) from system.runtime.nodes where state = 'active'")[0][0] > 0:
                    return
            except (OSError, RuntimeError):
                pass
            if self.process.poll() is not None:
                break
        raise RuntimeError(f"Trino does not start: {(self.folder / 'trino.log').read_text()[-2000:]}")

    def ask(self, query: str) -> list[list]:
        request = urllib.request.Request(f"http://localhost:{self.PORT}/v1/statement", query.encode(), {"X-Trino-User": "test", "X-Trino-Time-Zone": "UTC"})
        rows: list[list] = []
        answer = json.load(urllib.request.urlopen(request))
        while True:
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            rows += answer.get("data", [])
            if "nextUri" not in answer:
                return rows
            answer = json.load(urllib.request.urlopen(answer["nextUri"]))

    def table(self, table: str) -> str:
        # Registered as the newest metadata is, for others commit to it.
        if table in self.registered:
            self.ask(f"call lake.system.unregister_table('tables', '{table}')")
        version = (self.location(table) / "metadata" / "version-hint.text").read_text()
        self.ask(f"call lake.system.register_table('tables', '{table}', 'file://{self.location(table)}', 'v{version}.metadata.json')")
        self.registered.add(table)
        return f"lake.tables.{table}"

    def totals(self, kind: str, table: str) -> dict:
        name = self.table(table)
        query = TOTALS.replace("sum(at_ns)", "sum(cast(at_ns as decimal(30,0)))").format(table=name)
        found = {key: plain(key, value) for key, value in zip(TOTAL_NAMES, self.ask(query)[0])}
        entries = f"select count(*), sum(l.size) from {name} cross join unnest(levels) as l(price, size)"
        found["levels"], found["level_sizes"] = map(int, self.ask(entries)[0])
        return found

    def one(self, kind: str, table: str, symbol: str, day: str) -> tuple[int, int]:
        query = ONE.format(table=self.table(table), symbol=symbol, day=day, zone=" UTC")
        rows = self.ask(query)[0][0]
        plan = "\n".join(row[0] for row in self.ask(f"explain analyze verbose {query}"))
        # The most that a scan read.
        read = [int(number.replace(",", "")) for number in re.findall(r"Physical input: [^\n]*|Input: ([\d,]+) rows", plan) if number]
        return rows, max(read)

    def entries(self, kind: str, table: str) -> dict:
        row = self.ask(ENTRIES.format(table=self.table(table)))[0]
        return dict(zip(["rows", "levels", "level_sizes", "messages_with_entries"], map(int, row)))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


ENGINES = [DuckDb, PyIceberg, DeltaRs, Polars, Spark, Trino]


def open_all(names: list[str], home: Path, folder: Path, stores: Stores) -> list[Engine]:
    """Starts the engines of these names."""
    known = {engine.name: engine for engine in ENGINES}
    return [known[name](home, folder, stores) for name in names]
