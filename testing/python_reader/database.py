"""Directories and text files of a database (docs/format/database.md)."""

import logs
import rows
from checksums import crc32c
from logs import Header
from schema import Schema
from segments import Segment


class Stream:
    def __init__(self, folder, name, checks):
        self.folder, self.name, self.checks = folder, name, checks
        lines, text = checked_text(folder, "stream.tape", "tapedb-stream", "revision", checks)
        self.id = int(lines["id"], 16)
        self.schema_version, self.spaces = int(lines["schema"]), int(lines["spaces"])
        self.schemas = {self.schema_version: Schema(text)}
        for version in range(1, self.schema_version):
            _, text = checked_text(folder, f"schema-{version}", "tapedb-schema", None, checks)
            self.schemas[version] = Schema(text)
        data = (folder / "symbols").read_bytes()
        Header(data, b"TAPESYM1", self.id, checks, f"{name}/symbols")
        self.symbols = logs.symbols(data, checks, f"{name}/symbols")

    def messages(self):
        """Time, space, sequence number, symbol, record type's name and values, in order of time."""
        found = []
        for space in range(self.spaces):
            for time, sequence, symbol, type_id, version, body, schema in Space(self, space).rows():
                values = rows.record(schema.records[type_id], body)
                newest = self.schemas[self.schema_version]
                values = convert(values, schema, newest)
                found.append((time, space, sequence, self.symbols[symbol], as_json(newest, values)))
        return sorted(found, key=lambda message: message[:3])


class Space:
    def __init__(self, stream, number):
        self.stream, self.number = stream, number
        self.folder = stream.folder / str(number)
        self.where = f"{stream.name}/{number}"
        self.lines, text = checked_text(self.folder, "manifest", "tapedb-space", "generation", stream.checks, ends=False)
        self.sealed = int(self.lines["sealed"])
        self.deletions, self.parts = [], []
        for line in text.splitlines():
            words = line.split()
            if words[0] == "delete":
                symbols = None if words[6] == "*" else {int(symbol) for symbol in words[6].split(",")}
                self.deletions.append((*map(int, words[1:6]), symbols))
            elif words[0] == "part":
                self.parts.append(words[1:])

    def rows(self):
        """The rows of all segments and of the log, without those that are deleted."""
        found, sequence = [], 0
        for part in self.parts:
            first, end = int(part[0]), int(part[1])
            if first != sequence:
                raise ValueError(f"{self.where}: a part begins at {first}, not at {sequence}")
            sequence = end
            if len(part) > 2 and part[2] != "lost":
                found += self._without_deleted(self._segment(part), int(part[8]))
        if sequence != self.sealed:
            raise ValueError(f"{self.where}: parts end at {sequence}, sealed is {self.sealed}")
        return found + self._without_deleted(self._log(), 0)

    def _segment(self, part):
        first, end, number, messages, time_min, time_max, size, _tier, _ = part[:9]
        path = self.folder / f"{int(first):020}-{number}.seg"
        data = path.read_bytes()
        segment = Segment(data, self.stream.id, self.stream.checks, f"{self.where}/{path.name}")
        found = segment.rows()
        stated = [int(word) for word in (first, end, messages, time_min, time_max, size)]
        real = [segment.first_sequence, segment.next_sequence, len(found), found[0][0], found[-1][0], len(data)]
        if stated != real:
            raise ValueError(f"{self.where}: the manifest states {stated}, {path.name} has {real}")
        return [(*row, segment.schema) for row in found]

    def _log(self):
        files = sorted(self.folder.glob("*.log"))
        expected, found, last, salts = self.sealed, [], None, set()
        for path in files:
            where, data = f"{self.where}/{path.name}", path.read_bytes()
            header = Header(data, b"TAPELOG1", self.stream.id, self.stream.checks, where)
            salts.add(header.salt)
            batches = list(logs.batches(data, header, self.stream.checks, where))
            index = path.with_suffix(".idx")
            if index.exists():
                entries = index.read_bytes()
                head = Header(entries, b"TAPEIDX1", self.stream.id, self.stream.checks, f"{where} index", whole_file=True)
                logs.check_index(entries, head, batches, f"{where} index")
            rows_of_file = [row for batch in batches for row in batch[2]]
            if [row[1] for row in rows_of_file] != list(range(expected, expected + len(rows_of_file))):
                raise ValueError(f"{where}: sequence numbers do not continue from {expected}")
            expected += len(rows_of_file)
            found += rows_of_file
            last = path, len(data)
        self._check_end(last, expected, salts)
        return [(*row, self.stream.schemas[row[4]]) for row in found]

    def _check_end(self, last, next_sequence, salts):
        end = Header((self.folder / "end").read_bytes(), b"TAPEEND1", self.stream.id, self.stream.checks, f"{self.where}/end")
        path, size = last
        stated = f"{end.first_sequence:020}.log", end.log_bytes, end.next_sequence, {end.salt}
        if stated != (path.name, size, next_sequence, salts):
            raise ValueError(f"{self.where}/end: {stated}, but {path.name} has {size} bytes, {next_sequence} is next")

    def _without_deleted(self, found, carried_out):
        """What the deletions leave that have not been carried out: those from number `carried_out` on."""
        kept = []
        for row in found:
            time, sequence, symbol = row[:3]
            hits = (
                number >= carried_out and first <= time <= last and begin <= sequence < end
                and (symbols is None or symbol in symbols)
                for number, first, last, begin, end, symbols in self.deletions
            )  # fmt: skip
            if not any(hits):
                kept.append(row)
        return kept


def checked_text(folder, name, magic, counter, checks, ends=True):
    """Keys and values of a text file, and the text behind its head; of two copies the one with the larger counter."""
    copies = []
    for file in (name, f"{name}.copy"):
        where = f"{folder.name}/{file}"
        first, second, rest = (folder / file).read_bytes().split(b"\n", 2)
        checks.compare("text file", crc32c(rest), int(second.split()[1], 16), where)
        if first.decode() != f"{magic} 1":
            raise ValueError(f"{where}: {first}")
        text = rest.decode()
        if counter is None:
            copies.append((0, {}, text))
            continue
        head, _, behind = text.partition("\n\n") if ends else (text, "", text)
        lines = dict(line.split(" ", 1) for line in head.splitlines())
        copies.append((int(lines[counter]), lines, behind))
    return max(copies, key=lambda copy: copy[0])[1:]


def convert(values, written, read):
    """Values of one version of the schema as another one has them (docs/format/schema.md, Versions)."""
    if written is read:
        return values
    old, new = written.by_name[values["$type"]], read.by_name[values["$type"]]
    converted = {"$type": new.name}
    for field in new.fields:
        names = [field.name, *field.aliases]
        source = next((found for name in names for found in old.fields if found.name == name), None)
        source = source or next((found for found in old.fields if field.name in found.aliases), None)
        value = None if source is None else _convert(values[source.name], field.type, written, read)
        if value is None and not field.nullable or source is None:
            value = default(field)
        converted[field.name] = value
    return converted


def _convert(value, type_, written, read):
    if isinstance(value, dict):
        return convert(value, written, read)
    if isinstance(value, list):
        return [_convert(item, type_.item.type, written, read) for item in value]
    if isinstance(value, int) and type_.kind in ("decimal64", "decimal"):
        scale = type_.size if type_.kind == "decimal" else 0
        return rows.plain(value < 0, abs(value) * 10**scale, -scale)
    return value


def as_json(schema, values):
    """Values as the JSON of messages has them: a record names its type only where it could be of several."""

    def of_type(value, type_):
        if isinstance(value, list):
            return [of_type(item, type_.item.type) for item in value]
        if not isinstance(value, dict):
            return value
        value = as_json(schema, value)
        if len(type_.records) == 1:
            del value["$type"]
        return value

    fields = schema.by_name[values["$type"]].fields
    return {"$type": values["$type"]} | {field.name: of_type(values[field.name], field.type) for field in fields}


def default(field):
    if field.default is None or field.default[1] == "null":
        return None
    kind, text = field.default
    if kind == "text":
        return text[1:-1]
    if kind == "name":
        return {"true": True, "false": False}.get(text, text)
    return text if field.type.kind in ("decimal64", "decimal") else int(text) if text.lstrip("+-").isdigit() else float(text)
