#!/usr/bin/env python3
"""Counts what files of crypto venues hold, with nothing but Python's json, gzip, zipfile and decimal, and compares it with the file of expected counts
that the test `crypto` of `tapedb-venue` reads, and with what the binary imports and reads back.

    check_frames.py --data DIR [--tapedb target/release/tapedb] [--write]

One line a file: its name, then for each kind of frame its count, of book frames the number of levels and the exact sum of their prices and sizes, of trades the
number and the exact sums. `--write` replaces the file of expected counts. Exit code 0: no difference.
"""

import argparse
import ast
import gzip
import io
import json
import os
import re
import sys
import zipfile
from collections import Counter

from frame_totals import Totals, stored

EXPECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frames.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", required=True, help="folder of the market data")
    parser.add_argument("--tapedb", help="the binary, to import each file and to read it back")
    parser.add_argument("--write", action="store_true", help="replace the file of expected counts")
    args = parser.parse_args()
    lines, checks, same = [], Counter(), True
    for folder in ("bybit-ob500", "coinbase-book-snapshots", "exchange-raw-ws", "tardis-csv"):
        for name in sorted(os.listdir(os.path.join(args.data, folder))):
            path = os.path.join(args.data, folder, name)
            lines.append(count(path, f"{folder}/{name}"))
            if args.tapedb:
                found, counted = stored(args.tapedb, path, f"{folder}/{name}")
                checks.update(counted)
                if found != lines[-1]:
                    same = False
                    print(f"expected: {lines[-1]}\nstored:   {found}")
    text = "\n".join(lines) + "\n"
    if args.write:
        with open(EXPECTED, "w", encoding="utf-8") as out:
            out.write(text)
        return
    with open(EXPECTED, encoding="utf-8") as known:
        good = known.read() == text
    print("no difference" if good else f"DIFFERENT:\n{text}")
    if args.tapedb:
        same = same and checks["failed"] == checks["gaps"] == 0
        print(f"{len(lines)} files read back: {'no difference' if same else 'DIFFERENT'}; {dict(checks)}")
    sys.exit(0 if good and same else 1)


def count(path, name):
    totals = Totals()
    if name.startswith("tardis"):
        tardis(text_of(path), totals)
    elif name.startswith("coinbase"):
        book = json.loads(text_of(path), parse_float=str)
        for side in ("bids", "asks"):
            for price, size, *_ in book[side]:
                totals.level(price, size)
    elif name.startswith("bybit"):
        for line in text_of(path).splitlines():
            levels(json.loads(line)["data"], "b", "a", totals)
    else:
        capture(path, os.path.basename(name).split(".")[0], totals)
    return totals.line(name)


def text_of(path):
    if path.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0]).decode()
    if path.endswith(".gz"):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return lines.read()
    with open(path, encoding="utf-8") as lines:
        return lines.read()


def tardis(text, totals):
    header, *rows = text.splitlines()
    names = header.split(",")
    for row in rows:
        row = dict(zip(names, row.split(",")))
        if "id" in row:
            totals.trade(row["price"], row["amount"])
        elif "is_snapshot" in row:
            totals.level(row["price"], row["amount"])
        elif "ask_price" in row:
            totals.level(row["bid_price"], row["bid_amount"])
            totals.level(row["ask_price"], row["ask_amount"])
        else:
            for place in range(len(names) // 4 - 1):
                for side in ("bids", "asks"):
                    totals.level(row[f"{side}[{place}].price"], row[f"{side}[{place}].amount"])


def levels(book, bids, asks, totals):
    for side in (bids, asks):
        for price, size, *_ in book.get(side, []):
            totals.level(price, size)


def capture(path, venue, totals):
    prices = {}
    for line in io.StringIO(text_of(path)):
        line = line.rstrip("\n")
        answer = re.match(r"https?://(\S+) -> [0-9.]+: (.*)$", line, re.DOTALL)
        frame = re.match(r"[0-9.]+: (.*)$", line, re.DOTALL)
        if answer:
            http(venue, answer.group(1), answer.group(2), totals)
        elif frame:
            body = frame.group(1)
            if body.startswith(("b'", 'b"')):
                body = gzip.decompress(ast.literal_eval(body)).decode()
            body = json.loads(body, parse_float=str, parse_int=str)
            READERS[venue](body, totals, prices)
        elif line:
            totals.counts["other lines"] += 1


def http(venue, url, body, totals):
    if "/depth?" in url or "/order_book/" in url:
        levels(json.loads(body, parse_float=str), "bids", "asks", totals)
        return
    totals.counts["other answers"] += 1


def binance(frame, totals, _):
    data = frame["data"]
    kind = frame["stream"].split("@")[1]
    if kind == "depth":
        levels(data, "b", "a", totals)
    elif kind == "bookTicker":
        totals.level(data["b"], data["B"])
        totals.level(data["a"], data["A"])
    elif kind == "aggTrade":
        totals.trade(data["p"], data["q"])
    else:
        totals.counts["bars"] += 1


def bitfinex(frame, totals, channels):
    if isinstance(frame, dict):
        if frame["event"] == "subscribed":
            channels[frame["chanId"]] = frame["channel"]
        totals.counts["control"] += 1
        return
    number, data, *rest = frame
    if data in ("hb", "tu"):
        totals.counts["control"] += 1
    elif channels[number] == "ticker":
        totals.counts["tickers"] += 1
    elif channels[number] == "trades":
        for trade in data if isinstance(data, list) else [rest[0]]:
            totals.trade(trade[3], trade[2])
    else:
        for price, orders, size in data if isinstance(data[0], list) else [data]:
            totals.level(price, "0" if orders == "0" else size.lstrip("-"))


def okx(frame, totals, _):
    if "event" in frame:
        totals.counts["control"] += 1
        return
    channel = frame["arg"]["channel"]
    for data in frame["data"]:
        if channel == "books":
            levels(data, "bids", "asks", totals)
        elif channel == "trades":
            totals.trade(data["px"], data["sz"])
        elif channel == "trade":
            totals.trade(data[1], data[2])
        elif channel.startswith("candle"):
            totals.counts["bars"] += 1
        else:
            totals.counts["tickers"] += 1


def bitmex(frame, totals, prices):
    if "table" not in frame:
        totals.counts["control"] += 1
        return
    for row in frame["data"]:
        if frame["table"] == "trade":
            totals.trade(row["price"], row["size"])
        elif frame["table"] == "quote":
            totals.level(row["bidPrice"], row["bidSize"])
            totals.level(row["askPrice"], row["askSize"])
        else:
            level = row["symbol"], row["id"]
            if "price" in row:
                prices[level] = row["price"]
            totals.level(prices[level], row.get("size"))
            if frame["action"] == "delete":
                del prices[level]


def bitstamp(frame, totals, _):
    if frame["event"].startswith("bts:"):
        totals.counts["control"] += 1
    elif frame["event"] == "trade":
        totals.trade(frame["data"]["price_str"], frame["data"]["amount_str"])
    else:
        levels(frame["data"], "bids", "asks", totals)


def coinbase(frame, totals, _):
    kind = frame["type"]
    if kind == "snapshot":
        levels(frame, "bids", "asks", totals)
    elif kind == "l2update":
        for _, price, size in frame["changes"]:
            totals.level(price, size)
    elif kind in ("match", "last_match"):
        totals.trade(frame["price"], frame["size"])
    else:
        totals.counts["tickers" if kind == "ticker" else "control"] += 1


def deribit(frame, totals, _):
    if "params" not in frame:
        totals.counts["control"] += 1
        return
    data = frame["params"]["data"]
    kind = frame["params"]["channel"].split(".")[0]
    if kind == "book":
        for action, price, size in data["bids"] + data["asks"]:
            totals.level(price, "0" if action == "delete" else size)
    elif kind == "trades":
        for trade in data:
            totals.trade(trade["price"], trade["amount"])
    else:
        totals.counts["tickers"] += 1


def huobi(frame, totals, _):
    if "ch" not in frame:
        totals.counts["control"] += 1
    elif "trade" in frame["ch"]:
        for trade in frame["tick"]["data"]:
            totals.trade(trade["price"], trade["amount"])
    else:
        levels(frame["tick"], "bids", "asks", totals)


def kraken(frame, totals, _):
    if isinstance(frame, dict):
        totals.counts["control"] += 1
        return
    _, *parts, channel, _pair = frame
    for part in parts:
        if channel == "trade":
            for trade in part:
                totals.trade(trade[0], trade[1])
        elif channel == "ticker":
            totals.counts["tickers"] += 1
        else:
            for side in ("as", "bs", "a", "b"):
                levels(part, side, "-", totals)


READERS = {
    "BINANCE": binance,
    "BINANCE_FUTURES": binance,
    "BITFINEX": bitfinex,
    "BITGET": okx,
    "BITMEX": bitmex,
    "BITSTAMP": bitstamp,
    "COINBASE": coinbase,
    "DERIBIT": deribit,
    "HUOBI": huobi,
    "KRAKEN": kraken,
    "OKX": okx,
}

if __name__ == "__main__":
    main()
