#!/usr/bin/env python3
"""Imports captures of IEX and of CME with the real binary, reads them back as JSON, and compares counts and exact sums with what is in the
files: this reader takes the captures apart itself, with `struct` alone.

    check_captures.py --tapedb target/release/tapedb --data DIR

DIR holds the folders iex and exchange-pcap. The number of each kind of message, the sums of prices and sizes, the sums of the venue's times and the number of ends
of events have to agree. A file that is cut has to end with an error, and with all that is before the cut. Exit code 0: no difference.
"""

import argparse
import collections
import decimal
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile

IEX = "iex/DEEP10.pcap.gz"
CME = "exchange-pcap/Cme.Mdp3.Sbe.v6.1.pcap.gz"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tapedb", required=True, help="the binary")
    parser.add_argument("--data", required=True, help="folder of the market data")
    args = parser.parse_args()
    good = True
    for name, reader, facts, is_cut in [(IEX, iex, iex_fact, True), (CME, mdp3, mdp3_fact, False)]:
        path = os.path.join(args.data, name)
        if not os.path.exists(path):
            print(f"SKIPPED: {name} is not there")
            continue
        want = reader(path)
        with tempfile.TemporaryDirectory(prefix="tapedb-acceptance-") as folder:
            have = imported(args.tapedb, os.path.join(folder, "db"), path, facts, is_cut)
        kinds = sorted(set(want.kinds) | set(have.kinds))
        different = [kind for kind in kinds if want.kinds.get(kind) != have.kinds.get(kind)]
        for kind in different:
            print(f"{name}: {kind}: file {want.kinds.get(kind)}, TapeDB {have.kinds.get(kind)}")
        messages = sum(count for count, *_ in have.kinds.values())
        print(f"{name}: {messages:,} messages of {len(kinds)} kinds, {len(different)} differences")
        good &= not different and messages > 0
    print("no difference" if good else "DIFFERENT")
    sys.exit(0 if good else 1)


class Sums:
    """Of each kind: messages, sum of prices, sum of sizes, sum of times in nanoseconds, ends of events."""

    def __init__(self):
        self.kinds = collections.defaultdict(lambda: [0, decimal.Decimal(0), decimal.Decimal(0), 0, 0])

    def add(self, kind, price=0, size=0, time=0, end=False):
        sums = self.kinds[kind]
        sums[0] += 1
        sums[1] += price
        sums[2] += size
        sums[3] += time
        sums[4] += bool(end)


def imported(tapedb, db, path, fact, is_cut):
    command = [tapedb, "import", "--db", db, "--create", "--stream", "s", path]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if is_cut != (run.returncode != 0) or is_cut and "cut short" not in run.stderr:
        sys.exit(f"{path}: exit code {run.returncode}: {run.stderr}")
    sums = Sums()
    with subprocess.Popen([tapedb, "read", "--db", db, "s", "--output", "json"], stdout=subprocess.PIPE) as reader:
        for line in reader.stdout:
            fact(json.loads(line, parse_float=decimal.Decimal), sums)
    return sums


def number(value):
    return decimal.Decimal(0) if value is None else decimal.Decimal(value)


def nanoseconds(text):
    """Of a time as TapeDB writes it, the nanoseconds since midnight of its day in UTC."""
    if text is None:
        return 0
    clock = text.split("T")[1].rstrip("Z")
    hours, minutes, seconds = clock.split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**9 + int(fraction.ljust(9, "0") or 0)


def of_day(nanos):
    return nanos % (86_400 * 10**9)


def datagrams(path):
    """Payloads of UDP in a capture of Ethernet, pcap or pcapng, and whether each is whole."""
    with gzip.open(path) as file:
        data = file.read()
    for frame in pcapng(data) if data.startswith(b"\x0a\x0d\x0d\x0a") else pcap(data):
        at = 12
        while frame[at : at + 2] == b"\x81\x00":
            at += 4
        ip = at + 2
        udp = ip + (frame[ip] & 15) * 4
        if frame[at:ip] != b"\x08\x00" or frame[ip + 9] != 17:
            continue
        length = struct.unpack_from(">H", frame, udp + 4)[0]
        yield frame[udp + 8 : udp + length]


def pcap(data):
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def pcapng(data):
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            yield data[at + 28 : at + 28 + captured]
        at += length


def iex(path):
    sums, epochs, last = Sums(), 0, {}
    for payload in datagrams(path):
        session = payload[2:12]
        count, _, first, _ = struct.unpack_from("<Hqqq", payload, 14)
        if count and first < last.get(session, first):
            epochs += 1
        if count:
            last[session] = first + count
        at = 40
        for _ in range(count):
            length = struct.unpack_from("<H", payload, at)[0] if at + 2 <= len(payload) else 1 << 16
            message = payload[at + 2 : at + 2 + length]
            if len(message) < length:
                sums.add("Gap")
                break
            iex_message(message, sums)
            at += 2 + length
    for _ in range(epochs):
        sums.add("Notice")
    return sums


def iex_message(message, sums):
    kind = chr(message[0])
    time = of_day(struct.unpack_from("<q", message, 2)[0])
    scale = decimal.Decimal(10) ** -4
    if kind in "85TB":
        size, price = struct.unpack_from("<Iq", message, 18)
        name = {"8": "BID", "5": "ASK"}.get(kind, kind)
        sums.add(name, price * scale, decimal.Decimal(size), time, kind in "85" and message[1] & 1)
    else:
        sums.add(kind, time=time)


def iex_fact(message, sums):
    kind = message["$type"]
    time = nanoseconds(message.get("match_time"))
    if kind == "MarketByPrice":
        name = message.get("side") or {"TRADE": "T", "NONE": "B"}[message.get("action")]
        sums.add(name, number(message.get("price")), number(message.get("size")), time, message.get("event_end"))
    elif kind == "Status":
        sums.add(iex_status(message), time=time)
    else:
        sums.add(kind)


def iex_status(message):
    text = message.get("text") or ""
    if message["symbol"] == "IEXG":
        return "S"
    if text == "operational halt":
        return "O"
    if "process complete" in text:
        return "E"
    return "P" if message.get("short_sale_restricted") is not None else "H"


def mdp3(path):
    sums, seen = Sums(), set()
    for payload in datagrams(path):
        if payload in seen:
            continue
        seen.add(payload)
        at = 12
        while at < len(payload):
            size, root, template = struct.unpack_from("<HHH", payload, at)
            mdp3_message(template, payload[at + 10 : at + 10 + root], payload[at + 10 + root : at + size], sums)
            at += size
    return sums


def entries(data, head):
    """The entries of a group, and what is behind it."""
    length, count = struct.unpack_from("<H", data)[0], data[head - 1]
    return [data[head + i * length : head + (i + 1) * length] for i in range(count)], data[head + count * length :]


def mdp3_message(template, root, groups, sums):
    if template == 12:
        return
    time, end = of_day(struct.unpack_from("<Q", root)[0]), root[8] >> 7
    first, rest = entries(groups, 3)
    second = entries(rest, 8)[0] if rest else []
    last = len(first) + len(second) - 1
    for place, entry in enumerate(first + second):
        is_end = end and place == last
        if place >= len(first):
            sums.add("FILL", size=decimal.Decimal(struct.unpack_from("<i", entry, 8)[0]), time=time, end=is_end)
        elif template in (32, 42):
            price, size = struct.unpack_from("<qi", entry)
            name = "TRADE" if template == 42 else ("ADD", "MODIFY", "DELETE")[entry[25]] + chr(entry[26])
            undefined = size == 2**31 - 1
            sums.add(name, decimal.Decimal(price).scaleb(-7), decimal.Decimal(0 if undefined else size), time, is_end)
        elif template == 37:
            sums.add("e", size=decimal.Decimal(struct.unpack_from("<i", entry)[0]), time=time)
        elif template == 35:
            sums.add(chr(entry[18]), decimal.Decimal(struct.unpack_from("<q", entry)[0]).scaleb(-7), time=time)
        else:
            sums.add(f"template {template}")


def mdp3_fact(message, sums):
    kind = message["$type"]
    time = nanoseconds(message.get("match_time"))
    if kind == "MarketByPrice":
        letter = "" if message.get("action") == "TRADE" else chr(message.get("flags") >> 16)
        name = message.get("action") + letter
        sums.add(name, number(message.get("price")), number(message.get("size")), time, message.get("event_end"))
    elif kind == "Order":
        sums.add(message.get("action"), size=number(message.get("size")), time=time, end=message.get("event_end"))
    elif kind == "Statistic":
        sums.add(chr(message.get("code")), number(message.get("price")), number(message.get("quantity")), time)
    else:
        sums.add(kind)


if __name__ == "__main__":
    main()
