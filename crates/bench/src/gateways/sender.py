"""Sends a frame of six columns with QuestDB's client: sender.py VERSION PORT ROWS TABLE; prints the seconds that it takes."""

import sys
import time

import numpy
import pandas
from questdb import Sender

version, port, rows, table = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
numbers = numpy.arange(rows)
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
with Sender.from_conf(f"http::addr=127.0.0.1:{port};protocol_version={version};") as sender:
    # The connection and the server's threads are there before.
    sender.row("warm", symbols={"symbol": "A"}, columns={"size": 0}, at=frame["time"][0].to_pydatetime())
    sender.flush()
    begin = time.perf_counter()
    sender.dataframe(frame, table_name=table, symbols=["symbol", "side"], at="time")
    sender.flush()
    print(time.perf_counter() - begin)
