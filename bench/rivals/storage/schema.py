"""The columns of the two data sets, the same for every rival.

Prices are scaled integers (int64) everywhere, in the unit in which the data come: each rival stores and sums
those natively, while decimals would slow some of them down. No column has nulls. Times are UTC, in a type
without a time zone, as only there DuckDB keeps nanoseconds. Symbols and venues are dictionaries, which DuckDB
calls enums.
"""

import pyarrow as pa

_TIME = pa.field("time", pa.timestamp("ns"), nullable=False)


def _number(name: str) -> pa.Field:
    return pa.field(name, pa.int64(), nullable=False)


def _code(name: str) -> pa.Field:
    return pa.field(name, pa.dictionary(pa.int32(), pa.string()), nullable=False)


# Prices in cents.
BARS = pa.schema(
    [
        _TIME,
        _code("symbol"),
        _number("open"),
        _number("high"),
        _number("low"),
        _number("close"),
        _number("volume"),
    ]
)

# Prices in 1/10,000 of a dollar; the side that a quote does not concern is 0, as in the files.
QUOTES = pa.schema(
    [
        _TIME,
        _code("symbol"),
        _number("bid_price"),
        _number("bid_size"),
        _number("ask_price"),
        _number("ask_size"),
        _code("venue"),
        _number("condition"),
        pa.field("suspicious", pa.bool_(), nullable=False),
    ]
)


def is_code(column: pa.Field) -> bool:
    """Whether a column holds few distinct texts."""
    return pa.types.is_dictionary(column.type)


def with_codes(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in this schema: texts become dictionaries in the order of the texts."""
    columns = [
        _encoded(table[field.name]) if is_code(field) else table[field.name].cast(field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema).combine_chunks()


def _encoded(texts: pa.ChunkedArray) -> pa.Array:
    values = texts.unique().sort()
    places = pa.compute.index_in(texts, values).combine_chunks()
    return pa.DictionaryArray.from_arrays(places, values)
