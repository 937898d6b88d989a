"""ADBC's driver of PostgreSQL: it reads through COPY in binary."""
import os

import adbc_driver_postgresql.dbapi as adbc

with adbc.connect(f"postgresql://anyone@127.0.0.1:{os.environ['GATEWAY_PORT']}/tapedb") as connection, connection.cursor() as cursor:
    cursor.execute("SELECT symbol, price, size, time, time_ns FROM ticks ORDER BY sequence")
    table = cursor.fetch_arrow_table()
    assert table.num_rows == 20000, table.num_rows
    assert table["price"][3].as_py() == 100.03 and table["symbol"][1].as_py() == "MSFT"
    assert table["time_ns"][0].as_py() == 1704205800000000123
