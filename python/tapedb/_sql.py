"""Queries in SQL, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _tapedb
from ._errors import Invalid
from ._frames import with_arrow
from ._table import Table

if TYPE_CHECKING:
    from ._database import Database


class Query(Table):
    """The rows of a query as columns.

    The query runs while its rows are read: `for batch in query`, or one of the methods below. It began with :meth:`Database.sql`, which
    raised what is wrong with it; a second method runs it again, on what the database has at that time. Ctrl-C stops it, and so does dropping
    the object. It has Arrow's stream interface, as :class:`Table` has.
    """

    def __init__(
        self,
        db: Database,
        text: str,
        params: Sequence[Any] | Mapping[str, Any] | None,
        decimals: Any,
        time_limit: float | None,
        max_rows: int | None,
    ) -> None:
        from ._stream import decimals_of

        whole, _ = decimals_of(decimals)
        self._db = db
        self._asked = {
            "text": text,
            "parameters": _row(params),
            "decimals": whole if isinstance(whole, str) else f"{whole[0]},{whole[1]}",
            "time_limit": time_limit,
            "max_rows": max_rows,
        }
        super().__init__("query", self._run, self._count_rows)
        begun = self._begin()
        self._begun: _tapedb.Batches | None = begun
        self._columns = begun.empty()

    def _begin(self) -> _tapedb.Batches:
        return self._db._adopt(self._db._db.sql(self._asked))

    def _run(self) -> _tapedb.Batches:
        """The rows of the query that has begun; when these were read, of a new one."""
        begun, self._begun = self._begun, None
        return begun if begun is not None else self._begin()

    def _count_rows(self) -> int:
        return sum(batch.num_rows for batch in self)

    @property
    def columns(self) -> dict[str, str]:
        """Arrow types of the columns, by name."""
        return dict(self._columns.columns)

    def count(self) -> int:
        """Number of rows: they are read and counted."""
        return super().count()

    def __arrow_c_schema__(self) -> object:
        return self._columns.__arrow_c_schema__()


def _row(params: Sequence[Any] | Mapping[str, Any] | None) -> Any:
    """The values as a record batch of one row."""
    if params is None or len(params) == 0:
        return None
    if isinstance(params, (str, bytes)):
        raise Invalid("params is a text; give a sequence of values for $1, $2, …, or a mapping for $name")
    named = params if isinstance(params, Mapping) else {str(number): value for number, value in enumerate(params, 1)}
    return with_arrow({str(name).removeprefix("$"): [_plain(value)] for name, value in named.items()})


def _plain(value: Any) -> Any:
    """A number of NumPy as one of Python."""
    return value.item() if getattr(getattr(value, "dtype", None), "kind", "") in set("iufb") and hasattr(value, "item") else value
