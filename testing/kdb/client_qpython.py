"""qPython3 against a plant: subscribes, receives, publishes what it can. Arguments: port, rows."""

import sys

import numpy
from qpython import qconnection
from qpython.qcollection import qlist, qtable
from qpython.qtype import QDOUBLE_LIST, QLONG_LIST, QSYMBOL_LIST, QTIMESPAN_LIST, QException

port, rows = int(sys.argv[1]), int(sys.argv[2])


def connect():
    client = qconnection.QConnection(host="127.0.0.1", port=port, username="me", password="secret")
    client.open()
    assert client.protocol_version == 3, client.protocol_version
    return client


def columns(first, count):
    numbers = range(first, first + count)
    return [
        qlist([numpy.timedelta64(n * 1000, "ns") for n in numbers], qtype=QTIMESPAN_LIST),
        qlist([(b"AIG", b"BAC")[n % 2] for n in numbers], qtype=QSYMBOL_LIST),
        qlist([n / 4 for n in numbers], qtype=QDOUBLE_LIST),
        qlist(list(numbers), qtype=QLONG_LIST),
        qlist([b"N" for _ in numbers], qtype=QSYMBOL_LIST),
    ]


def table(first, count):
    return qtable(qlist(["time", "sym", "price", "size", "ex"], qtype=QSYMBOL_LIST), columns(first, count))


def take(client, until):
    sizes = []
    while not sizes or sizes[-1] != until:
        _, name, update = client.receive(data_only=True, raw=False)
        assert name == b"trade", name
        sizes += [int(size) for size in update["size"]]
    return sizes


trade, symbol = numpy.string_("trade"), numpy.string_
feed, subscriber = connect(), connect()
assert feed.sendSync("1+1") == 2
name, empty = subscriber.sendSync(".u.sub", trade, symbol(""))
assert name == b"trade" and len(empty) == 0, (name, empty)

feed.sendSync(".u.upd", trade, [numpy.timedelta64(1, "ns"), symbol("AIG"), 1.5, numpy.int64(0), symbol("N")])
feed.sendSync(".u.upd", trade, [symbol("AIG"), 1.5, numpy.int64(1), symbol("N")])
feed.sendAsync("upd", trade, columns(2, 2))
feed.sendSync(".u.upd", trade, table(4, 1))
assert take(subscriber, 4) == [0, 1, 2, 3, 4]

for first in range(5, rows, 1000):
    feed.sendAsync(".u.upd", trade, columns(first, min(1000, rows - first)))
sizes = take(subscriber, rows - 1)
assert sizes == list(range(5, rows)), len(sizes)
assert feed.sendSync("count trade") == rows
start = connect().sendSync("(.u.sub[`;`];`.u `i`L)")
assert [pair[0] for pair in start[0]] == [b"quote", b"trade"], start
try:
    feed.sendSync(".u.sub", symbol("nosuch"), symbol(""))
    raise SystemExit("an unknown table must be refused")
except QException as error:
    assert "nosuch" in str(error), error
print("received", 5 + len(sizes))
