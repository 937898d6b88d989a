"""A table in DuckDB's own file, of one thread or of several (`SET threads`).

The connection stays open between reads, as a user's would: DuckDB keeps blocks in its own buffers, and
opening the file anew for every query would throw them away.
"""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

from ..sums import Sums, Texts


class DuckDbTable:
    """See the module."""

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """Inserts the rows in their order, and writes them into the file (`CHECKPOINT`)."""
        with _connected(path, threads) as connection:
            for name, values in texts.items():
                connection.execute(f"CREATE TYPE {name}_code AS ENUM ({', '.join(map(_quoted, values))})")
            columns = ", ".join(f"{field.name} {_sql_type(field)} NOT NULL" for field in source.schema)
            connection.execute(f"CREATE TABLE ticks ({columns})")
            connection.register("source", source)
            connection.execute("INSERT INTO ticks SELECT * FROM source")
            connection.execute("CHECKPOINT")

    def reader(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """One query of all sums; an enum counts as its place."""
        connection = _connected(path, threads)
        columns = connection.execute(_COLUMNS).fetchall()
        query = f"SELECT count(*), {', '.join(f'sum({_number(*column)})' for column in columns)} FROM ticks"

        def read() -> Sums:
            rows, *sums = connection.execute(query).fetchall()[0]
            return Sums(rows, {name: int(total) for (name, _), total in zip(columns, sums, strict=True)})

        return read


RIVAL = DuckDbTable()

_COLUMNS = (
    "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'ticks' ORDER BY column_index"
)


def _connected(path: Path, threads: int) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(path), config={"threads": threads})


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _sql_type(field: pa.Field) -> str:
    if pa.types.is_dictionary(field.type):
        return f"{field.name}_code"
    if pa.types.is_timestamp(field.type):
        return "TIMESTAMP_NS"
    return "BOOLEAN" if pa.types.is_boolean(field.type) else "BIGINT"


def _number(name: str, sql_type: str) -> str:
    """What a value of a column counts, in SQL."""
    if sql_type.startswith("ENUM"):
        return f"enum_code({name})"
    return {"TIMESTAMP_NS": f"epoch_ns({name})", "BOOLEAN": f"{name}::TINYINT"}.get(sql_type, name)
