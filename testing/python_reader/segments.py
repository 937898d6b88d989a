"""Segments (docs/format/segment.md): columns of blocks back to rows."""

import struct

import encodings_of_columns as encodings
import rows as rows_of_bodies
from checksums import crc32c, crc64_nvme
from encodings_of_columns import MASK, Bytes, NotDecoded, signed
from schema import Schema

_HEADER = struct.Struct("<8sHHIQQQII12sI")
_BLOCK = struct.Struct("<4sIIIIIIIqqQQQII")
_GROUP = struct.Struct("<HHIII")
_COLUMN = struct.Struct("<HHIIIQQ")
_FOOTER_BLOCK = struct.Struct("<QIIIIqqQQ")
_TRAILER = struct.Struct("<QQQII8s")
_OWN, _LANE_TIME, _LANE_SYMBOL, _LANE_COUNT, _POSITION = 65535, 65532, 65533, 65534, 65535
_SIGNED = ("i8", "i16", "i32", "i64", "decimal", "timestamp", "time_of_day")


class Segment:
    """A segment of which everything has been compared with its checksums but the contents of blocks."""

    def __init__(self, data, stream_id, checks, where):
        self.data, self.checks, self.where = data, checks, where
        fields = _HEADER.unpack_from(data)
        self.version, self.schema_version, self.space = fields[1:4]
        self.first_sequence, self.next_sequence = fields[5:7]
        checks.compare("segment header", crc32c(data[:60]), fields[10], where)
        if fields[0] != b"TAPESEG1" or self.version > 4 or fields[4] != stream_id:
            raise ValueError(f"{where}: not a segment of the stream")
        text = data[64 : 64 + fields[7]]
        checks.compare("segment schema", crc32c(text), fields[8], where)
        self.schema = Schema(text.decode())
        self._end_of_schema = 64 + fields[7]
        self._read_footer()

    def _read_footer(self):
        trailer = self.data[-40:]
        offset, length, self.messages, footer_crc, crc, magic = _TRAILER.unpack(trailer)
        self.checks.compare("segment trailer", crc32c(trailer[:28]), crc, self.where)
        footer = self.data[offset : offset + length]
        self.checks.compare("segment footer", crc32c(footer), footer_crc, self.where)
        has_strands = magic == b"TAPEEND2"
        if magic not in (b"TAPEEND1", b"TAPEEND2") or has_strands != (self.version >= 4) or offset + length + 40 != len(self.data):
            raise ValueError(f"{self.where}: not a trailer")
        source = Bytes(footer)
        blocks, symbols = source.number(4), source.number(4)
        self.blocks = [_FOOTER_BLOCK.unpack(source.take(56)) for _ in range(blocks)]
        self.symbols, symbol = {}, -1
        for _ in range(symbols):
            symbol += source.varint() + 1
            messages, at, inside = source.varint(), 0, []
            for _ in range(source.varint()):
                at += source.varint()
                run = source.varint()
                inside += range(at, at + run)
                at += run
            self.symbols[symbol] = messages, inside
        self.strands = [source.number(2) if has_strands else 0 for _ in range(blocks)]
        if source.at != len(footer):
            raise ValueError(f"{self.where}: bytes left in the footer")

    def rows(self):
        """Time, sequence number, symbol id, type id, schema version and body of all rows; compared with the footer."""
        found, offset, last_of = [], self._end_of_schema, {}
        by_symbol = {}
        for number, stated in enumerate(self.blocks):
            block = Block(self, stated[0], f"{self.where} block {number}")
            rows = block.rows()
            times, sequences = [row[0] for row in rows], [row[1] for row in rows]
            real = (offset, block.length, block.head_len, len(rows), block.front_len)
            real += (times[0], times[-1], min(sequences), max(sequences))
            if stated != real or times != sorted(times):
                raise ValueError(f"{self.where}: the footer states {stated}, block {number} has {real}")
            strand = self.strands[number]
            if (times[0], sequences[0]) <= last_of.get(strand, (-(2**63) - 1, 0)):
                raise ValueError(f"{self.where}: block {number} is not after the one before it in strand {strand}")
            last_of[strand] = times[-1], sequences[-1]
            for row in rows:
                messages, blocks = by_symbol.setdefault(row[2], (0, []))
                by_symbol[row[2]] = messages + 1, blocks if number in blocks else [*blocks, number]
            offset += block.length
            found += rows
        if len(found) != self.messages or by_symbol != self.symbols:
            raise ValueError(f"{self.where}: {len(found)} messages of {by_symbol}, stated {self.messages}, {self.symbols}")
        found.sort(key=lambda row: row[:2])
        return [(*row[:4], self.schema_version, row[4]) for row in found]


class Block:
    def __init__(self, segment, offset, where):
        data, checks = segment.data, segment.checks
        self.schema, self.checks, self.where = segment.schema, checks, where
        (magic, crc, self.head_len, column_len, self.count, self.body_bytes, groups, columns, self.time_min, self.time_max,
         self.sequence_min, self.sequence_max, self.content, self.flags, _) = _BLOCK.unpack_from(data, offset)  # fmt: skip
        if magic != b"TPK1":
            raise ValueError(f"{where}: not a block")
        head = data[offset : offset + self.head_len]
        checks.compare("block head", crc32c(head[8:]), crc, where)
        self.groups = [_GROUP.unpack_from(head, 80 + 16 * index) for index in range(groups)]
        self.columns, at = {}, offset + self.head_len
        self.length, self.front_len = self.head_len + column_len, self.head_len
        for index in range(columns):
            group, number, length, crc, _, _, _ = _COLUMN.unpack_from(head, 80 + 16 * groups + 32 * index)
            column = data[at : at + length]
            checks.compare("column", crc32c(column), crc, f"{where} column {group}/{number}")
            self.columns[group, number] = column
            self.front_len += length if group == _OWN else 0
            at += length
        if at != offset + self.length:
            raise ValueError(f"{where}: columns end at {at}")

    def rows(self):
        """Time, sequence number, symbol id, type id and body of each row, in order of time."""
        types = [group[0] for group in self.groups]
        is_cut = len(set(types)) < len(types)
        runs = [row // 128 if is_cut else 0 for row in range(self.count)]
        own = Columns(self, _OWN)
        times = [signed(time) for time in own.integers(0, runs)]
        sequences = list(range(self.sequence_min, self.sequence_min + self.count))
        if own.has(1):
            sequences = own.integers(1, runs)
        lanes = own.integers(2, [0] * self.count) if own.has(2) else None
        rows, first_lane = [None] * self.count, 0
        for index, group in enumerate(self.groups):
            for place, symbol, time, body in self._group(index, group, lanes, first_lane):
                if rows[place] is not None or time not in (None, times[place]):
                    raise ValueError(f"{self.where}: row {place} twice, or of two times")
                rows[place] = times[place], sequences[place], symbol, group[0], body
            first_lane += group[3]
        self._check(rows)
        return rows

    def _group(self, index, group, lanes, first_lane):
        """Place, symbol id, lane time and body of each row of a group, in the order of lanes."""
        type_id, whole, count, lane_count, first_symbol = group
        columns = Columns(self, index)
        one = [0] * lane_count
        symbols = columns.integers(_LANE_SYMBOL, one) if columns.has(_LANE_SYMBOL) else [first_symbol]
        counts = columns.integers(_LANE_COUNT, one) if columns.has(_LANE_COUNT) else [count]
        if len(symbols) != lane_count or sum(counts) != count or symbols[0] != first_symbol:
            raise ValueError(f"{self.where}: group {index} has lanes {symbols} of {counts} rows")
        runs = [lane for lane, rows in enumerate(counts) for _ in range(rows)]
        if columns.has(_POSITION):
            places = columns.integers(_POSITION, runs)
        elif lanes is not None:
            by_lane = [[] for _ in range(lane_count)]
            for row, lane in enumerate(lanes):
                if first_lane <= lane < first_lane + lane_count:
                    by_lane[lane - first_lane].append(row)
            places = [row for rows in by_lane for row in rows]
        else:
            places = list(range(self.count))
        times = [None] * count
        if columns.has(_LANE_TIME):
            times = [signed(time) for time in columns.integers(_LANE_TIME, runs)]
        if whole:
            bodies = columns.texts(0, count)
        else:
            bodies = Records(columns).bodies(self.schema.records[type_id], runs)
        for place, run, time, body in zip(places, runs, times, bodies, strict=True):
            yield place, symbols[run], time, body

    def _check(self, rows):
        """The checksum of the content, which covers every byte of every row."""
        if sum(len(row[4]) for row in rows) != self.body_bytes:
            raise ValueError(f"{self.where}: bodies do not have {self.body_bytes} bytes")
        if self.flags & 1:
            heads = b"".join(struct.pack("<qQIHI", t, s, y, i, len(body)) for t, s, y, i, body in rows)
            content = heads + b"".join(row[4] for row in rows)
            self.checks.compare("content of a block", crc64_nvme(content), self.content, self.where)


class Columns:
    """The columns of a group, or of the block itself."""

    def __init__(self, block, group):
        self.block, self.group = block, group
        self._integers = {}

    def has(self, number):
        return (self.group, number) in self.block.columns

    def _source(self, number):
        source = Bytes(self.block.columns[self.group, number])
        return source.number(1), source

    def _finish(self, number, source, values):
        if source.at != len(source.data):
            raise ValueError(f"{self.block.where}: column {self.group}/{number}: bytes left over")
        self._integers[number] = values
        return values

    def texts(self, number, count):
        if count == 0:
            return []
        kind, source = self._source(number)
        if kind == 0:
            return [source.rest()] * count
        if kind != 6:
            raise ValueError(f"{self.block.where}: column {self.group}/{number}: kind {kind} of texts")
        return pieces(source, [0] * count, lambda part, runs: encodings.texts(part, len(runs)))

    def integers(self, number, runs, float_width=None):
        """The values of a column as 64 bits without sign; `runs` has the number of each value's run."""
        if not runs:
            return []
        kind, source = self._source(number)
        if kind == 0:
            return self._finish(number, source, [source.number(8)] * len(runs))
        if kind == 4:
            return self._finish(number, source, decimals(source, runs))
        if kind == 5:
            values = pieces(source, runs, lambda part, runs: encodings.floats(part, len(runs), ends(runs), float_width))
            return self._finish(number, source, values)
        if kind == 7:
            values = [1 - value & MASK for value in self.known(source.number(2), runs)]
            return self._finish(number, source, values)
        if kind not in (1, 2, 3):
            raise ValueError(f"{self.block.where}: column {self.group}/{number}: kind {kind}")
        other = source.number(2) if kind > 1 else None
        values = pieces(source, runs, integers)
        if other is not None:
            beside = self.known(other, runs)
            if kind == 3:
                is_first = [index == 0 or runs[index - 1] != run for index, run in enumerate(runs)]
                beside = [beside[index - (not first)] for index, first in enumerate(is_first)]
            values = [value + of_other & MASK for value, of_other in zip(values, beside)]
        return self._finish(number, source, values)

    def known(self, number, runs):
        """The values of a column that another one refers to, which may come behind it."""
        return self._integers[number] if number in self._integers else self.integers(number, runs)


def ends(runs):
    """Where runs end."""
    return [index + 1 for index, run in enumerate(runs) if index + 1 == len(runs) or runs[index + 1] != run]


def integers(source, runs):
    return encodings.integers(source, len(runs), ends(runs))


def pieces(source, runs, decode):
    """More than 65,536 values are in pieces, each with its length."""
    if len(runs) <= 65536:
        return decode(source, runs)
    values = []
    for start in range(0, len(runs), 65536):
        values += decode(Bytes(source.take(source.number(4))), runs[start : start + 65536])
    return values


def decimals(source, runs):
    """Bits of decimal64 from coefficients and shifts."""
    flags, exponent = source.number(1), struct.unpack("<h", source.take(2))[0]
    exceptions = [(source.number(4), source.number(8)) for _ in range(source.number(4))]
    part = Bytes(source.take(source.number(4)))
    shifts = [signed(shift) for shift in pieces(part, runs, integers)] if flags & 4 else [0] * len(runs)
    values = []
    for index, coefficient in enumerate(map(signed, pieces(source, runs, integers))):
        shift = shifts[index]
        if flags & 2:
            shift, most = 0, min(max(-exponent, 0), 18)
            while shift < most and coefficient % 10 ** (shift + 1) == 0:
                shift += 1
        if flags & 1:
            coefficient //= 10**shift
        values.append(rows_of_bodies.decimal64_bits(coefficient < 0, abs(coefficient), exponent + shift))
    for place, bits in exceptions:
        values[place] = bits
    return values


class Records:
    """The columns of a group's records, numbered depth first in the order of fields."""

    def __init__(self, columns):
        self.columns, self.next, self.records = columns, 0, 0

    def bodies(self, record, runs, inside=()):
        """The bodies of a record, one for each entry of `runs`."""
        self.records += 1
        fields = [self.contents(field, runs, (*inside, record.name)) for field in record.fields]
        return [rows_of_bodies.body(record, [field[row] for field in fields]) for row in range(len(runs))]

    def number(self):
        self.next += 1
        return self.next - 1

    def contents(self, field, runs, inside):
        """A field's slots or contents, None for nulls."""
        there = [True] * len(runs)
        if field.nullable:
            presence = self.number()
            if self.columns.has(presence):
                there = [value == 1 for value in self.columns.integers(presence, runs)]
        values = iter(self.values(field.type, [run for run, is_there in zip(runs, there) if is_there], inside))
        return [next(values) if is_there else None for is_there in there]

    def values(self, type_, runs, inside):
        kind, width = type_.kind, type_.width
        if kind in ("string", "binary"):
            return self.columns.texts(self.number(), len(runs))
        if kind == "ascii" and width > 8:
            return [text.ljust(width, b"\0") for text in self.columns.texts(self.number(), len(runs))]
        if width is not None:
            floats = width if kind in ("f32", "f64") else None
            values = self.columns.integers(self.number(), runs, floats)
            return [(value & (1 << 8 * width) - 1).to_bytes(width, "little") for value in values]
        if kind == "array":
            return self.arrays(type_, runs, inside)
        return self.one_of(type_, runs, inside)

    def arrays(self, type_, runs, inside):
        if self.next >= 1000:
            return self.columns.texts(self.number(), len(runs))
        counts = self.columns.integers(self.number(), runs)
        items = iter(self.contents(type_.item, [run for run, count in zip(runs, counts) for _ in range(count)], inside))
        return [rows_of_bodies.array(type_.item, [next(items) for _ in range(count)]) for count in counts]

    def one_of(self, type_, runs, inside):
        is_whole = any(record.name in inside for record in type_.records) or len(inside) >= 32
        if is_whole or self.next >= 1000 or self.records >= 10_000:
            return self.columns.texts(self.number(), len(runs))
        if len(type_.records) == 1:
            return self.bodies(type_.records[0], runs, inside)
        tags = self.columns.integers(self.number(), runs)
        by_tag = []
        for tag, record in enumerate(type_.records):
            of_record = [run for run, found in zip(runs, tags) if found == tag]
            by_tag.append(iter(self.bodies(record, of_record, inside)))
        return [bytes([tag]) + next(by_tag[tag]) for tag in tags]
