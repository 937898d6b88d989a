#!/usr/bin/env python3
"""Imports files of Databento with the real binary, reads them back as JSON, and compares every message with what Databento's own
reader finds in the files.

    check_dbn.py --tapedb target/release/tapedb --data DIR/dbn

Needs the package `databento-dbn` of PyPI, and `zstd`. DBZ files, which that reader does not read, are compared with their copies in
version 1 by number of messages. Exit code 0: no difference.
"""

import argparse
import decimal
import glob
import json
import os
import subprocess
import sys
import tempfile

import databento_dbn as dbn

UNDEFINED = 2**63 - 1
UNDEFINED_TIME = 2**64 - 1
MBO_ACTIONS = {"A": "ADD", "C": "CANCEL", "M": "MODIFY", "T": "TRADE", "F": "FILL", "R": "CLEAR", "N": "NONE"}
SIDES = {"B": "BID", "A": "ASK", "N": None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tapedb", required=True, help="the binary")
    parser.add_argument("--data", required=True, help="folder with DBN files")
    args = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(args.data, "**", "*.dbn*"), recursive=True))
    paths += sorted(glob.glob(os.path.join(args.data, "**", "*.dbz"), recursive=True))
    differences = messages = 0
    for path in paths:
        with tempfile.TemporaryDirectory(prefix="tapedb-acceptance-") as folder:
            have = imported(args.tapedb, os.path.join(folder, "db"), path)
        if path.endswith(".dbz"):
            same = path.removesuffix(".dbz") + ".v1.dbn.zst"
            found = [] if len(have) == len(expected(same)) else [f"{len(have)} messages"]
        else:
            found = list(compare(expected(path), have))
        messages += len(have)
        differences += len(found)
        for text in found[:5]:
            print(f"{path}: {text}")
    print(f"{len(paths)} files, {messages:,} messages, {differences} differences")
    sys.exit(1 if differences or not paths else 0)


def imported(tapedb, db, path):
    run([tapedb, "import", "--db", db, "--create", "--stream", "s", "--format", "dbn", path])
    lines = run([tapedb, "read", "--db", db, "s", "--output", "json"]).splitlines()
    return [json.loads(line) for line in lines]


def run(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def expected(path):
    """The records of a file in the order of their messages: by time, then as in the file."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".zst"):
        data = run(["zstd", "-dc", path])
    has_metadata = data.startswith(b"DBN")
    version = next((int(part[1]) for part in path.split(".") if part in ("v1", "v2", "v3")), 1)
    decoder = dbn.DBNDecoder(
        has_metadata=has_metadata,
        input_version=None if has_metadata else version,
        upgrade_policy=dbn.VersionUpgradePolicy.AS_IS,
    )
    decoder.write(data)
    records = [record for record in decoder.decode() if not isinstance(record, dbn.Metadata)]
    return sorted(records, key=time_of)


def time_of(record):
    if isinstance(record, dbn.OHLCVMsg):
        lengths = {0x20: 1, 0x21: 60, 0x22: 3600, 0x23: 86400}
        return record.ts_event + lengths.get(int(record.rtype), 0) * 1_000_000_000
    received = getattr(record, "ts_recv", UNDEFINED_TIME)
    return record.ts_event if received == UNDEFINED_TIME else received


def compare(records, messages):
    if len(records) != len(messages):
        yield f"{len(messages)} messages, the file has {len(records)}"
        return
    for number, (record, message) in enumerate(zip(records, messages)):
        for name, want, have in differing(facts(record), message):
            yield f"message {number}: {name}: file {want}, TapeDB {have}"


def differing(facts_, message):
    for name, want in facts_.items():
        have = value(message, name)
        if isinstance(want, decimal.Decimal) and have is not None:
            have = decimal.Decimal(have)
        if isinstance(want, int) and not isinstance(want, bool) and have is not None:
            have = int(have)
        if want != have:
            yield name, want, have


def value(message, name):
    """A field, `levels.0.bid_price`, or `@name` for an attribute."""
    if name.startswith("@"):
        found = [fact["value"] for fact in message["attributes"] if fact["name"] == name[1:]]
        return found[0] if found else None
    for part in name.split("."):
        if message is None:
            return None
        message = message[int(part)] if part.isdigit() else message.get(part)
    return message


def price(raw):
    return None if raw == UNDEFINED else decimal.Decimal(raw) / 10**9


def size(raw):
    return None if raw == 2**32 - 1 else decimal.Decimal(raw)


def code(text):
    return str(getattr(text, "value", text))


def facts(record):
    facts_ = {"instrument_id": record.instrument_id, "publisher_id": record.publisher_id}
    if isinstance(record, (dbn.MBOMsg, dbn.TradeMsg, dbn.MBP1Msg, dbn.MBP10Msg, dbn.BBOMsg, dbn.CMBP1Msg, dbn.CBBOMsg)):
        facts_ |= {"price": price(record.price), "size": size(record.size), "side": SIDES[code(record.side)]}
        facts_["flags"] = int(record.flags)
        if hasattr(record, "action"):
            facts_["action"] = MBO_ACTIONS[code(record.action)]
        for name in ("order_id", "channel_id", "depth", "sequence"):
            if hasattr(record, name):
                facts_[name] = getattr(record, name)
        for number, level in enumerate(getattr(record, "levels", [])):
            for side in ("bid", "ask"):
                place = f"levels.{number}.{side}"
                facts_[f"{place}_price"] = price(getattr(level, f"{side}_px"))
                facts_[f"{place}_size"] = size(getattr(level, f"{side}_sz"))
                if hasattr(level, f"{side}_ct"):
                    facts_[f"{place}_orders"] = getattr(level, f"{side}_ct")
                else:
                    facts_[f"{place}_publisher_id"] = getattr(level, f"{side}_pb")
    elif isinstance(record, dbn.OHLCVMsg):
        facts_ |= {name: price(getattr(record, name)) for name in ("open", "high", "low", "close")}
        facts_["volume"] = decimal.Decimal(record.volume)
    elif isinstance(record, dbn.StatusMsg):
        facts_ |= {"state_code": int(record.action), "reason_code": int(record.reason)}
        facts_["event_code"] = int(record.trading_event)
    elif isinstance(record, (dbn.StatMsg, dbn.StatMsgV1)):
        undefined = UNDEFINED if isinstance(record, dbn.StatMsg) else 2**31 - 1
        facts_ |= {"code": int(record.stat_type), "price": price(record.price), "sequence": record.sequence}
        facts_["quantity"] = None if record.quantity == undefined else decimal.Decimal(record.quantity)
    elif isinstance(record, dbn.ImbalanceMsg):
        facts_ |= {"reference_price": price(record.ref_price), "match_price": price(record.ind_match_price)}
        facts_ |= {"paired_size": size(record.paired_qty), "imbalance_size": size(record.total_imbalance_qty)}
    elif type(record).__name__.startswith("InstrumentDefMsg"):
        facts_ |= {"raw_symbol": record.raw_symbol or None, "asset": record.asset or None}
        facts_ |= {"tick_size": price(record.min_price_increment), "strike_price": price(record.strike_price)}
        facts_ |= {"currency": record.currency or None, "exchange": record.exchange or None}
        for name in ("market_depth", "max_trade_vol", "min_lot_size_round_lot", "contract_multiplier", "underlying_id"):
            raw = getattr(record, name)
            facts_[f"@{name}"] = None if raw in (2**31 - 1, 2**32 - 1) else str(raw)
    return facts_


if __name__ == "__main__":
    main()
