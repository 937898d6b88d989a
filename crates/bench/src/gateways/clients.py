"""One case of `tapedb bench gateways`: CASE PORT ROWS TABLE. Prints the seconds, the rows and their sum as JSON; 3: the client is missing."""

import json
import sys
import time

CASE, PORT, ROWS, TABLE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
SQL = f"SELECT time, symbol, side, price, amount, size FROM {TABLE}"
POSTGRES = f"host=127.0.0.1 port={PORT} user=anyone dbname=tapedb sslmode=disable"


def lines(version):
    import numpy
    import pandas
    from questdb import Sender

    numbers = numpy.arange(ROWS)
    symbols = [f"SYM{number:03}" for number in range(500)]
    frame = pandas.DataFrame(
        {
            "symbol": pandas.Categorical.from_codes(numbers % 500, symbols),
            "side": pandas.Categorical.from_codes(numbers % 2, ["buy", "sell"]),
            "price": 100 + numbers % 10_000 * 0.01,
            "amount": 0.5 + numbers % 100 * 0.25,
            "size": numbers,
            "time": pandas.to_datetime(1_700_000_000_000_000_000 + numbers * 1_000),
        }
    )
    with Sender.from_conf(f"http::addr=127.0.0.1:{PORT};protocol_version={version};") as sender:
        # The connection and the server's threads are there before: a line without a side does not count.
        sender.row(TABLE, symbols={"symbol": "A"}, columns={"size": 0}, at=frame["time"][0].to_pydatetime())
        sender.flush()
        begin = time.perf_counter()
        sender.dataframe(frame, table_name=TABLE, symbols=["symbol", "side"], at="time")
        sender.flush()
        return time.perf_counter() - begin, ROWS, None


def psycopg(binary):
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection, connection.cursor(binary=binary) as cursor:
        cursor.execute("SELECT 1")
        begin = time.perf_counter()
        rows = cursor.execute(SQL).fetchall()
        return time.perf_counter() - begin, len(rows), sum(row[5] for row in rows)


def asyncpg():
    import asyncio

    import asyncpg as driver

    async def read():
        connection = await driver.connect(host="127.0.0.1", port=PORT, user="anyone", database="tapedb", ssl=False)
        await connection.fetch("SELECT 1")
        begin = time.perf_counter()
        rows = await connection.fetch(SQL)
        seconds = time.perf_counter() - begin
        await connection.close()
        return seconds, len(rows), sum(row[5] for row in rows)

    return asyncio.run(read())


def copy():
    import psycopg

    with psycopg.connect(POSTGRES, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        begin = time.perf_counter()
        with cursor.copy(f"COPY ({SQL}) TO STDOUT (FORMAT binary)") as copied:
            length = sum(map(len, copied))
        seconds = time.perf_counter() - begin
        assert length > ROWS * 50, length
        return seconds, cursor.rowcount, None


def adbc():
    import adbc_driver_flightsql.dbapi as driver

    with driver.connect(f"grpc://127.0.0.1:{PORT}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
        begin = time.perf_counter()
        cursor.execute(SQL)
        table = cursor.fetch_arrow_table()
        seconds = time.perf_counter() - begin
        return seconds, table.num_rows, sum_of(table)


def sum_of(table):
    import pyarrow.compute

    return pyarrow.compute.sum(table["size"]).as_py()


def field(number, payload):
    """A field of bytes of a protocol buffer."""
    out, length = bytearray([number << 3 | 2]), len(payload)
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes(out) + bytes([length]) + payload


def pyarrow():
    import pyarrow.flight

    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    client = pyarrow.flight.connect(f"grpc://127.0.0.1:{PORT}")
    command = field(1, name) + field(2, field(1, SQL.encode()))
    begin = time.perf_counter()
    info = client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(command))
    table = client.do_get(info.endpoints[0].ticket).read_all()
    return time.perf_counter() - begin, table.num_rows, sum_of(table)


def arrow():
    import http.client

    import pyarrow.ipc

    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    body = json.dumps({"sql": SQL, "format": "arrow"})
    begin = time.perf_counter()
    connection.request("POST", "/api/query", body, {"Content-Type": "application/json", "X-TapeDB": "1"})
    table = pyarrow.ipc.open_stream(connection.getresponse()).read_all()
    return time.perf_counter() - begin, table.num_rows, sum_of(table)


CASES = {
    "gateways.ilp.v1": lambda: lines(1),
    "gateways.ilp.v2": lambda: lines(2),
    "gateways.psycopg.text": lambda: psycopg(False),
    "gateways.psycopg.binary": lambda: psycopg(True),
    "gateways.asyncpg": asyncpg,
    "gateways.copy.binary": copy,
    "gateways.flight.adbc": adbc,
    "gateways.flight.pyarrow": pyarrow,
    "gateways.http.arrow": arrow,
}
try:
    seconds, rows, total = CASES[CASE]()
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
print(json.dumps({"seconds": seconds, "rows": rows, "sum": total}))
