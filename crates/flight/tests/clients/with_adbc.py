"""ADBC's driver of Flight SQL: queries, values, the catalogue, an ingest."""
import os

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import pyarrow

URI = f"grpc://127.0.0.1:{os.environ['FLIGHT_PORT']}"


def connect(user, password):
    return adbc.connect(URI, db_kwargs={"username": user, "password": password}, autocommit=True)


with connect("ann", "secret") as connection, connection.cursor() as cursor:
    cursor.execute("SELECT symbol, price, size, time, time_ns FROM ticks ORDER BY sequence")
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 20000, table.num_rows
    assert table["price"][3].as_py() == 100.03 and table["symbol"][1].as_py() == "MSFT"
    assert table["time_ns"][0].as_py() == 1704205800000000123
    cursor.execute("SELECT count(*) FROM ticks WHERE symbol = $1 AND size = $2", ["AAPL", 3])
    assert cursor.fetchone()[0] == 1428
    cursor.execute("SELECT size FROM ticks LIMIT $1", [5])
    assert len(cursor.fetchall()) == 5
    assert connection.adbc_get_table_types() == ["TABLE"]
    assert connection.adbc_get_table_schema("Trade", db_schema_filter="ticks").names[:2] == ["time", "symbol"]
    objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
    schemas = {schema["db_schema_name"] for schema in objects[0]["catalog_db_schemas"]}
    assert schemas == {"ticks"}, objects
    assert connection.adbc_get_info()["vendor_name"] == "TapeDB"

    rows = pyarrow.table(
        {
            "time": pyarrow.array([1704205800000000001, 1704205800000000002], pyarrow.timestamp("ns", "UTC")),
            "symbol": ["A", "B"],
            "close": [1.5, 2.5],
        }
    )
    assert cursor.adbc_ingest("mine", rows, mode="create") == 2
    assert cursor.adbc_ingest("mine", rows, mode="append") == 2
    cursor.execute("SELECT sum(close) FROM mine")
    assert cursor.fetchone()[0] == 8.0
    for mode in ("create", "replace"):
        try:
            cursor.adbc_ingest("mine", rows, mode=mode)
            raise AssertionError(mode)
        except adbc_driver_manager.Error as error:
            assert "mine" in str(error) or "replaced" in str(error), error

for user, password in (("ann", "wrong"), ("bob", "secret")):
    try:
        with connect(user, password) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        raise AssertionError(user)
    except adbc_driver_manager.Error as error:
        assert "wrong" in str(error), error
