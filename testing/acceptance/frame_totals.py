"""What a file of a crypto venue holds: entries of books and trades with exact sums, and frames of other kinds; as it is counted from the file, and as it is in a
stream of TapeDB."""

import json
import subprocess
import tempfile
from collections import Counter
from decimal import Context, Decimal

# More digits than any sum has: additions are exact.
EXACT = Context(prec=200)


class Totals:
    def __init__(self):
        self.counts = Counter()
        self.prices = Decimal(0)
        self.sizes = Decimal(0)
        self.trade_prices = Decimal(0)
        self.trade_sizes = Decimal(0)

    def level(self, price, size):
        """A level of a book; a size of None or 0 is a delete, whose price counts alone."""
        self.counts["levels"] += 1
        self.prices = EXACT.add(self.prices, rounded(price))
        self.sizes = EXACT.add(self.sizes, rounded(size if size is not None else 0))

    def trade(self, price, size):
        self.counts["trades"] += 1
        self.trade_prices = EXACT.add(self.trade_prices, rounded(price))
        self.trade_sizes = EXACT.add(self.trade_sizes, abs(rounded(size)))

    def line(self, name):
        sums = {
            "prices": self.prices,
            "sizes": self.sizes,
            "trade_prices": self.trade_prices,
            "trade_sizes": self.trade_sizes,
        }
        parts = [f"{kind}={self.counts[kind]}" for kind in sorted(self.counts)]
        parts += [f"{kind}={plain(total)}" for kind, total in sums.items() if total]
        return " ".join([name, *parts])


def rounded(number):
    """Numbers of more than 16 digits to the nearest of 16, half to even."""
    number = Decimal(number)
    return Context(prec=16).plus(number) if len(number.as_tuple().digits) > 16 else number


def plain(number):
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def stored(tapedb, path, name):
    """The line of a file after the binary has imported it and read it back, and the import's counters."""
    totals = Totals()
    with tempfile.TemporaryDirectory() as folder:
        place = ["--db", f"{folder}/db", "--json"]
        run = [tapedb, "import", "--stream", "s", "--create", "--round-numbers", *place, path]
        report = json.loads(output(run).splitlines()[-1])
        if report["messages"]:
            for line in output([tapedb, "read", "s", *place]).splitlines():
                message(json.loads(line), totals)
    for kind, count in report.get("control", {}).items():
        other = kind in ("connection", "sent", "configuration")
        totals.counts["other lines" if other else "control"] += count
    if report["ignored"]:
        totals.counts["other answers"] = sum(report["ignored"].values())
    return totals.line(name), report.get("checks", {})


def output(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def message(found, totals):
    kind = found["$type"]
    if kind == "Package":
        for entry in found["entries"]:
            if entry["$type"] == "Trade":
                totals.trade(entry["price"], entry["size"])
            elif entry["$type"] != "SequenceRange":
                totals.level(entry.get("price") or 0, entry.get("size"))
    elif kind == "MarketByPrice":
        totals.trade(found["price"], found["size"])
    elif kind == "Order" and found["action"] == "ADD":
        totals.level(found["price"], found["size"])
    elif kind in ("IntervalBar", "Ticker"):
        totals.counts["bars" if kind == "IntervalBar" else "tickers"] += 1
    elif kind != "Order" or found["action"] != "CLEAR":
        totals.counts[kind] += 1
