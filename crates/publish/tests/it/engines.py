"""Counts and sums of a table, as an engine reads it: `engines.py FOLDER ENGINE…`; a line of JSON for each engine."""

import json
import sys
from pathlib import Path

SUMS = "select count(*), sum(volume), min(time_ns), max(time_ns), count(distinct symbol), sum(sequence), cast(sum(close) as varchar) from {}"
FOLDER, ENGINES = Path(sys.argv[1]), sys.argv[2:]
ICEBERG, DELTA = FOLDER / "iceberg" / "default" / "bars", FOLDER / "delta"


def duckdb(source, **tables):
    import duckdb

    connection = duckdb.connect()
    for extension in ["avro", "iceberg"] if "iceberg" in source else []:
        module = __import__(f"duckdb_extension_{extension}")
        (file,) = Path(module.__file__).parent.rglob(f"{extension}.duckdb_extension")
        connection.execute(f"load '{file}'")
    for name, table in tables.items():
        connection.register(name, table)
    return connection.execute(SUMS.format(source)).fetchone()


def read(engine):
    if engine == "duckdb_extension_iceberg":
        return duckdb(f"iceberg_scan('{ICEBERG}')")
    if engine == "pyiceberg":
        from pyiceberg.table import StaticTable

        version = (ICEBERG / "metadata" / "version-hint.text").read_text()
        table = StaticTable.from_metadata(str(ICEBERG / "metadata" / f"v{version}.metadata.json"))
        return duckdb("rows", rows=table.scan().to_arrow())
    from deltalake import DeltaTable

    return duckdb("rows", rows=DeltaTable(str(DELTA)).to_pyarrow_table())


for engine in ENGINES:
    print(json.dumps([str(value) for value in read(engine)]))
