"""Reads a closed database from the pages of docs/format alone, and compares every checksum in it.

    python3 testing/python_reader DATABASE

prints each message as a line of JSON, streams by name and messages by time, and in the end how many checksums were compared.
"""

import json
import sys
from pathlib import Path
from urllib.parse import unquote

from checksums import Checks, crc32c
from database import Stream


def main(folder):
    checks = Checks()
    marker = (folder / "tapedb.database").read_bytes()
    if marker != b"tapedb-database 1\n":
        raise ValueError(f"{folder} is not a database: {marker}")
    _, checksum, rest = (folder / "identity").read_bytes().split(b"\n", 2)
    checks.compare("text file", crc32c(rest), int(checksum.split()[1], 16), "identity")
    for path in sorted((folder / "streams").iterdir(), key=lambda path: unquote(path.name)):
        if path.name.startswith("."):
            continue
        stream = Stream(path, unquote(path.name), checks)
        for time, space, sequence, symbol, values in stream.messages():
            line = [stream.name, space, sequence, time, symbol, values]
            print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    print(json.dumps({"checksums": checks.counts}, sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
