"""Clients of the line protocol that others wrote, against a server whose ports are given: clients.py PART HTTP-PORT TCP-PORT."""

import decimal
import sys

import numpy
import pandas
from questdb import QuestDBError, Sender, TimestampMicros, TimestampNanos

PART, HTTP, TCP = sys.argv[1:4]
USER = "username=ann;password=secret;"


def senders():
    for version in (1, 2, 3):
        for transport, port in (("http", HTTP), ("tcp", TCP)):
            columns = {
                "p": 0.1,
                "n": -9007199254740993,
                "s": 'q"u\\o\nte \u00fc',
                "b": True,
                "at": TimestampMicros(1704067200000005),
            }
            if version >= 2:
                columns["a"] = numpy.array([[1.5, 2.5], [3.5, 4.5]])
            if version >= 3:
                columns["d"] = decimal.Decimal("1.2500")
                columns["e"] = decimal.Decimal("-0.000001")
            with Sender.from_conf(f"{transport}::addr=127.0.0.1:{port};protocol_version={version};") as sender:
                sender.row(
                    f"quotes{version}_{transport}",
                    symbols={"symbol": "A B", "ex": 'x,=\\"'},
                    columns=columns,
                    at=TimestampNanos(1700000000000000001),
                )
    print("sent")


def frames():
    rows = 100_000
    numbers = numpy.arange(rows)
    frame = pandas.DataFrame(
        {
            "sym": pandas.Categorical([f"S{number % 500}" for number in range(rows)]),
            "price": numbers * 0.01,
            "size": numbers,
            "live": numbers % 2 == 0,
            "note": [f"n{number % 7}" for number in range(rows)],
            "time": pandas.to_datetime(1_700_000_000_000_000_000 + numbers * 1_000),
        }
    )
    for version in (1, 2, 3):
        with Sender.from_conf(f"http::addr=127.0.0.1:{HTTP};protocol_version={version};{USER}") as sender:
            sender.dataframe(frame, table_name=f"t{version}", at="time")
    refused = 0
    for table, user in (("t1", USER), ("other", USER)):
        try:
            # The version is asked for, since none is given.
            with Sender.from_conf(f"http::addr=127.0.0.1:{HTTP};{user}") as sender:
                sender.row(table, symbols={"sym": "A"}, columns={"price": "text"}, at=TimestampNanos(1))
        except QuestDBError as error:
            expected = "the field price is f64, and the line has a string" if table == "t1" else "may not write stream"
            if expected in str(error):
                refused += 1
            else:
                print(error)
    print("refused", refused)


def influx():
    from influxdb_client import InfluxDBClient, Point, WritePrecision
    from influxdb_client.client.write_api import SYNCHRONOUS

    for compressed in (False, True):
        with InfluxDBClient(
            url=f"http://127.0.0.1:{HTTP}", token="ann:secret", org="o", enable_gzip=compressed
        ) as client:
            assert client.ping()
            point = Point("trade").tag("symbol", "A B")
            if compressed:
                point = point.field("p", 2.5).field("n", 4).field("s", "z").field("b", False).time(1700000000000000002)
            else:
                point = point.field("p", 1.5).field("n", 3).field("s", 'q"x\ny').field("b", True).time(1700000000000000001)
            writer = client.write_api(write_options=SYNCHRONOUS)
            writer.write("bucket", record=[point])
            if compressed:
                writer.write("bucket", record="tcpu,sym=a v=1u 17\n# c\n", write_precision=WritePrecision.S)
    print("written")


def encrypted():
    """Long and short requests over TLS, and a client without it, which gets nothing."""
    for transport, port in (("https", HTTP), ("tcps", TCP)):
        configuration = f"{transport}::addr=localhost:{port};tls_ca=pem_file;tls_roots={sys.argv[4]};protocol_version=2;"
        with Sender.from_conf(configuration) as sender:
            for number in range(50_000):
                sender.row(transport, symbols={"symbol": "A"}, columns={"n": number}, at=TimestampNanos(number + 1))
    try:
        with Sender.from_conf(f"http::addr=127.0.0.1:{HTTP};protocol_version=2;retry_timeout=0;") as sender:
            sender.row("plain", columns={"n": 1}, at=TimestampNanos(1))
        print("plain lines were taken")
    except QuestDBError:
        print("encrypted")


{"senders": senders, "frames": frames, "influx": influx, "encrypted": encrypted}[PART]()
