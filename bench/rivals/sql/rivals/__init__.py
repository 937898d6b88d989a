"""The rivals, each in a file of its own. A worker process imports only the one it measures."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from ..queries import Hour


class Rival(Protocol):
    """Something that runs the queries."""

    def prepare(
        self, case: str, tables: dict[str, pa.Table], folder: Path, threads: int, hour: Hour
    ) -> Callable[[], Any]:
        """Loads the tables as its users hold them, and returns what runs the query, or that about an hour.

        Rows are something that pyarrow takes.
        """
        ...


# Key in the names of cases, and title in the table.
TITLES = {
    "duckdb": "DuckDB, its own file",
    "polars": "Polars, in memory",
    "pandas": "pandas, in memory",
    "chdb": "chDB, its own table",
    "questdb": "QuestDB, a server",
}

_MODULES = {
    "duckdb": "duckdb_file",
    "polars": "polars_frames",
    "pandas": "pandas_frames",
    "chdb": "chdb_tables",
    "questdb": "questdb_server",
}

# What a rival cannot do, or not in less than minutes.
WITHOUT = {
    ("pandas", "sum"),
    ("duckdb", "window"),
    ("polars", "window"),
    ("pandas", "window"),
    ("chdb", "window"),
}

# Rivals that take any of the quotes with equal times; TapeDB, Polars and pandas take the last. Real quotes
# have many of these, generated ones none.
TAKES_ANY = {("duckdb", "asof.real"), ("chdb", "asof.real")}


def rival(key: str) -> Rival:
    """The rival of a key of `TITLES`."""
    found: Rival = import_module(f"{__name__}.{_MODULES[key]}").RIVAL
    return found
