"""psycopg 3: types in text and binary, parameters, cursors, COPY, errors."""
import datetime
import decimal
import math
import os

import psycopg

DSN = f"host=127.0.0.1 port={os.environ['GATEWAY_PORT']} user=anyone dbname=tapedb"
START = datetime.datetime(2024, 1, 2, 14, 30, tzinfo=datetime.timezone.utc)

with psycopg.connect(DSN) as connection:
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        row = cursor.execute("SELECT time, symbol, price, size, side, id, sequence, time_ns FROM ticks WHERE sequence = 0").fetchone()
        assert row == (START, "AAPL", 100.0, 0, "Buy", decimal.Decimal(2**64 - 1), decimal.Decimal(0), 1704205800000000123), row
        rows = cursor.execute("SELECT flag, small, wide, ratio, exact, clock, text, bytes, list, level FROM kinds ORDER BY sequence").fetchall()
        first, second = rows
        assert first == (
            True, -5, None, 0.1, decimal.Decimal("12345.6700"), datetime.time(14, 30, 0, 500000), 'a\tb"c\\\nü', b"\x00\xff", [1, 2],
            {"price": 1.5, "size": 7},
        ), first
        assert second[2] == 2**53 + 1 and math.isnan(second[3]) and second[4] == decimal.Decimal("-0.0001") and second[8] == []
        for query, values, expected in [
            ("SELECT count(*) FROM ticks WHERE symbol = %s AND size = %s", ("AAPL", 3), 1428),
            ("SELECT count(*) FROM ticks WHERE time < %s", (START + datetime.timedelta(milliseconds=10),), 10),
            ("SELECT count(*) FROM ticks WHERE price = %b", (100.5,), 200),
            ("SELECT count(*) FROM ticks WHERE price = %s", (decimal.Decimal("100.50"),), 200),
            ("SELECT count(*) FROM ticks WHERE symbol = ANY(%s) AND size = %s", (["AAPL", "a,b"], 3), 1428),
            ("SELECT count(*) FROM ticks WHERE size = ANY(%s)", ([1, 70000],), 2857),
            ("SELECT count(*) FROM ticks WHERE price = ANY(%s)", ([100.5],), 200),
            ("SELECT count(*) FROM ticks WHERE side IS NULL AND %s", (True,), 6666),
        ]:
            found = cursor.execute(query, values).fetchone()[0]
            assert found == expected, (query, values, found)
        for _ in range(10):  # prepared after some times
            assert cursor.execute("SELECT count(*) FROM ticks WHERE size = %s", (1,)).fetchone()[0] == 2857
        with connection.cursor(name="served", binary=binary) as served:
            served.itersize = 3000
            served.execute("SELECT sequence, price FROM ticks ORDER BY sequence")
            rows = list(served)
            assert len(rows) == 20000 and rows[19999][1] == 100.99, rows[-1]
    cursor = connection.cursor()
    with cursor.copy("COPY (SELECT size, symbol, price, time FROM ticks ORDER BY sequence LIMIT 5) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["int8", "text", "float8", "timestamptz"])
        rows = list(copy.rows())
        assert rows[1] == (1, "MSFT", 100.01, START + datetime.timedelta(milliseconds=1)), rows
    with cursor.copy("COPY (SELECT text, wide FROM kinds ORDER BY sequence) TO STDOUT") as copy:
        copy.set_types(["text", "int8"])
        assert list(copy.rows()) == [('a\tb"c\\\nü', None), ("", 2**53 + 1)]
    connection.commit()
    try:
        cursor.execute("SELECT missing FROM ticks")
    except psycopg.errors.UndefinedColumn:
        connection.rollback()
    else:
        raise AssertionError("a column that is not there")
    assert connection.info.server_version == 150000
    with connection.transaction():
        assert cursor.execute("SELECT 1").fetchone() == (1,)
    connection.autocommit = True
    cursor.execute("SET statement_timeout = '100ms'")
    try:
        cursor.execute("SELECT count(*) FROM ticks a, ticks b, ticks c WHERE a.price + b.price + c.price < 0")
    except psycopg.errors.QueryCanceled:
        pass
    else:
        raise AssertionError("it took too long")
    cursor.execute("SET statement_timeout = '0'")
    rows = [(datetime.datetime(2024, 2, 1, tzinfo=datetime.timezone.utc), "COPIED", 1.5, number, None, decimal.Decimal(number)) for number in range(1000)]
    for form, types in (("text", None), ("binary", ["timestamptz", "text", "float8", "int8", "text", "numeric"])):
        with cursor.copy(f"COPY ticks (time, symbol, price, size, side, id) FROM STDIN (FORMAT {form})") as copy:
            if types:
                copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        assert cursor.rowcount == 1000, cursor.rowcount
    assert cursor.execute("SELECT count(*), sum(size) FROM ticks WHERE symbol = 'COPIED'").fetchone() == (2000, 999000)
    try:
        with cursor.copy("COPY ticks (time, symbol, price, size, side, id) FROM STDIN") as copy:
            copy.write_row(rows[0])
            copy.write_row((rows[0][0], "COPIED", 1, -1, None, 1))
    except psycopg.errors.DataException as error:
        assert "line 2" in str(error) and "no row was stored" in str(error), error
    else:
        raise AssertionError("a size below zero")
    assert cursor.execute("SELECT size FROM ticks LIMIT %s", [3]).fetchall()[2:]
