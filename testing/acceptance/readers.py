"""An independent reader of the market-data files, written from their description alone.

It shares nothing with TapeDB's importers but the files: standard library only, text in, text out. Every reader yields
rows `(time_ns, symbol, package)` in the order of its file; `package` is the canonical JSON object of the message without
its header, with exact numbers as text.
"""

import calendar
import datetime
import gzip
import io
import json
import os
import zipfile

MS = 1_000_000
HOUR_NS = 3_600_000_000_000


def midnight_ns(date):
    """Nanoseconds since the epoch of 00:00 UTC on YYYYMMDD."""
    return calendar.timegm((int(date[:4]), int(date[4:6]), int(date[6:8]), 0, 0, 0)) * 1_000_000_000


def new_york_offset_hours(date):
    """Hours that New York is behind UTC in a trading session (04:00-20:00): since 2007 daylight saving runs from the
    second Sunday in March to the first in November."""
    day = datetime.date(int(date[:4]), int(date[4:6]), int(date[6:8]))

    def sunday(month, number):
        first = datetime.date(day.year, month, 1)
        return first + datetime.timedelta(days=(6 - first.weekday()) % 7 + 7 * (number - 1))

    return 4 if sunday(3, 2) <= day < sunday(11, 1) else 5


def ten_thousandths(text):
    """`491800` units of 1/10000 as `49.1800`."""
    digits = text.rjust(5, "0")
    return digits[:-4] + "." + digits[-4:]


def zip_lines(path):
    """`(member name, line)` of every CSV in a zip."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                for line in io.TextIOWrapper(member, encoding="ascii", newline="\n"):
                    yield name, line.rstrip("\r\n")


def us_equity(path):
    """us-equity-ticks/{sym}/{yyyymmdd}_{trade|quote}.zip"""
    date, kind = os.path.basename(path).split(".")[0].split("_")
    symbol = os.path.basename(os.path.dirname(path)).upper()
    start = midnight_ns(date) + new_york_offset_hours(date) * HOUR_NS
    make = us_trade if kind == "trade" else us_quote
    for _, line in zip_lines(path):
        fields = line.split(",")
        yield start + int(fields[0]) * MS, symbol, {"$type": "Package", "kind": "UPDATE", "entries": make(fields)}


def us_trade(fields):
    _, price, size, venue, condition, suspicious = fields
    entry = {"$type": "Trade"}
    if venue:
        entry["exchange"] = venue
    entry["price"] = ten_thousandths(price)
    entry["size"] = size
    return [with_marks(entry, "", condition, suspicious)]


def us_quote(fields):
    _, bid, bid_size, ask, ask_size, venue, condition, suspicious = fields
    sides = []
    for side, price, size in (("BID", bid, bid_size), ("ASK", ask, ask_size)):
        if int(price) or int(size):
            sides.append({"$type": "Level1", "side": side, "price": ten_thousandths(price), "size": size})
    # Nothing on either side: the venue has no quote any more.
    if not sides:
        sides = [{"$type": "Level1", "side": "BID"}, {"$type": "Level1", "side": "ASK"}]
    return [with_marks(entry, venue, condition, suspicious) for entry in sides]


def with_marks(entry, venue, condition, suspicious):
    if venue:
        entry["exchange"] = venue
    if condition:
        entry["condition"] = condition
    entry["suspicious"] = {"0": False, "1": True}[suspicious]
    return entry


def fx(path):
    """fx-ticks: zips of `time, bid, ask`, and HistData's gzip of `YYYYMMDD HHMMSSmmm, bid, ask, 0`."""
    folder = os.path.basename(os.path.dirname(path))
    if folder == "histdata":
        yield from histdata(path)
        return
    provider, symbol = folder.split("-")
    start = midnight_ns(os.path.basename(path)[:8]) + (5 * HOUR_NS if provider == "fxcm" else 0)
    for _, line in zip_lines(path):
        time, bid, ask = line.split(",")
        whole, _, fraction = time.partition(".")
        ns = int(whole) * MS + int(fraction.ljust(6, "0") or 0)
        yield start + ns, symbol.upper(), two_sides(bid, ask, provider.upper())


def histdata(path):
    with gzip.open(path, "rt", encoding="ascii", newline="\n") as lines:
        for line in lines:
            time, bid, ask, _ = line.rstrip("\r\n").split(",")
            date, clock = time.split(" ")
            seconds = int(clock[:2]) * 3600 + int(clock[2:4]) * 60 + int(clock[4:6])
            ns = midnight_ns(date) + 5 * HOUR_NS + seconds * 1_000_000_000 + int(clock[6:9]) * MS
            yield ns, "EURUSD", two_sides(bid, ask, "HISTDATA")


def two_sides(bid, ask, exchange):
    def level(side, price):
        return {"$type": "Level1", "side": side, "price": price, "exchange": exchange, "suspicious": False}

    return {"$type": "Package", "kind": "UPDATE", "entries": [level("BID", bid), level("ASK", ask)]}


def binance(path):
    """binance-raw-ws/*.gz: `<local receive time, ns> <JSON>`."""
    name = os.path.basename(path)
    market, rest = name.split("-", 1)
    exchange = {"usdm": "BINUSDM", "cm": "BINCOINM", "spot": "BINANCE"}[market]
    symbol = rest.rsplit("_", 1)[0].upper()
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            time, text = line.split(" ", 1)
            frame = json.loads(text)
            if "stream" not in frame:
                yield int(time), symbol, snapshot(frame, exchange)
                continue
            data = frame["data"]
            make = {"depth": depth, "bookTicker": ticker, "trade": trade}[frame["stream"].split("@")[1]]
            yield int(time), data["s"], make(data, exchange)


def is_zero(text):
    return not text.strip("0.")


def package(data, kind, sequence, entries):
    made = {"$type": "Package", "kind": kind}
    if "E" in data:
        made["source_time"] = iso(data["E"] * MS)
    if "T" in data:
        made["match_time"] = iso(data["T"] * MS)
    if sequence is not None:
        made["sequence"] = sequence
    made["entries"] = entries
    return made


def depth(data, exchange):
    covered = {"$type": "SequenceRange", "first": data["U"]}
    if "pu" in data:
        covered["previous"] = data["pu"]
    entries = [covered]
    for side, levels in (("BID", data["b"]), ("ASK", data["a"])):
        for price, size in levels:
            gone = is_zero(size)
            entry = {"$type": "Level2Update", "action": "DELETE" if gone else "SET", "side": side, "price": price}
            if not gone:
                entry["size"] = size
            entry["exchange"] = exchange
            entries.append(entry)
    return package(data, "UPDATE", data["u"], entries)


def ticker(data, exchange):
    entries = []
    for side, price, size in (("BID", data["b"], data["B"]), ("ASK", data["a"], data["A"])):
        entry = {"$type": "Level1", "side": side}
        if not is_zero(price):
            entry.update(price=price, size=size)
        entry.update(exchange=exchange, suspicious=False)
        entries.append(entry)
    return package(data, "UPDATE", data["u"], entries)


def trade(data, exchange):
    entry = {
        "$type": "Trade",
        "exchange": exchange,
        "price": data["p"],
        "size": data["q"],
        "aggressor": "SELL" if data["m"] else "BUY",
        "id": data["t"],
    }
    if "X" in data:
        entry["condition"] = data["X"][:8]
    entry["suspicious"] = False
    return package(data, "UPDATE", None, [entry])


def snapshot(data, exchange):
    entries = []
    for side, levels in (("BID", data["bids"]), ("ASK", data["asks"])):
        for level, (price, size) in enumerate(levels):
            entries.append({"$type": "Level2Snapshot", "side": side, "level": level, "price": price, "size": size,
                            "exchange": exchange})
    return package(data, "SNAPSHOT", data["lastUpdateId"], entries)


SECONDS = {}


def iso(ns):
    """ISO 8601 with as many groups of three decimals as needed."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    text = SECONDS.get(seconds)
    if text is None:
        SECONDS.clear()
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        text = SECONDS[seconds] = moment.isoformat()
    if fraction == 0:
        return text + "Z"
    digits = "%09d" % fraction
    while digits.endswith("000"):
        digits = digits[:-3]
    return text + "." + digits + "Z"


FORMATS = {"us-equity-ticks": us_equity, "fx-ticks": fx, "binance-raw-ws": binance}


def files(root, form):
    """Paths relative to the data's root, folders and names in order: the order of the sources."""
    found = []
    for folder, folders, names in os.walk(os.path.join(root, form)):
        folders.sort()
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found, key=lambda path: path.split(os.sep))
