"""Files of the log (docs/format/log.md) and the batches in them (docs/format/batch.md)."""

import struct

from checksums import crc32c

MASK = (1 << 64) - 1
_HEADER = struct.Struct("<8sHHIQQQQIQI")
_BATCH = struct.Struct("<4sIIIQqqIHBBBBBBIIHHQQ")
_GRANULE = struct.Struct("<QQQqqII")


class Header:
    """The 64 bytes that begin every file of a log."""

    def __init__(self, data, magic, stream_id, checks, where, whole_file=False):
        fields = _HEADER.unpack_from(data)
        self.version, self.space, self.stream_id = fields[1], fields[3], fields[4]
        self.first_sequence, self.log_bytes, self.next_sequence = fields[5:8]
        self.count, self.salt, crc = fields[8:11]
        if fields[0] != magic or self.version > 2 or self.stream_id != stream_id:
            raise ValueError(f"{where}: {fields[0]} of version {self.version}, stream {self.stream_id:016x}")
        covered = data[:60] + bytes(4) + data[64:] if whole_file else data[:60]
        checks.compare("index or producers" if whole_file else "file header", crc32c(covered), crc, where)


def mix(number):
    number = number + 0x9E3779B97F4A7C15 & MASK
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK
    return number ^ number >> 31


def mark(header, offset):
    """The four bytes with which a batch begins at this offset of a log file."""
    if header.version == 1:
        return b"TPB1"
    word = mix(mix(header.salt ^ mix(header.first_sequence)) ^ offset) >> 32
    return struct.pack("<I", word if word & 0xFF else word | 1)


def batches(data, header, checks, where):
    """The batches of a log file, each with its offset and its length; zeros behind them are spare capacity."""
    offset = 64
    while offset < len(data) and data[offset]:
        if data[offset : offset + 4] != mark(header, offset):
            raise ValueError(f"{where}: no mark at {offset}")
        length = 80 + struct.unpack_from("<I", data, offset + 8)[0]
        yield offset, length, list(rows(data[offset : offset + length], checks, f"{where} at {offset}"))
        offset += length
    if any(data[offset:]):
        raise ValueError(f"{where}: bytes behind the last batch")


def rows(batch, checks, where):
    """Time, sequence number, symbol id, type id, schema version and body of each row of a batch."""
    (_, header_crc, payload_len, payload_crc, sequence, time_min, time_max, count, version, kind, flags, tw, sw, yw, lw,
     symbol_const, length_const, type_const, _, _, _) = _BATCH.unpack_from(batch)  # fmt: skip
    payload = batch[80:]
    checks.compare("batch header", crc32c(batch[8:80]), header_crc, where)
    checks.compare("batch payload", crc32c(payload), payload_crc, where)
    if kind != 1 or len(payload) != payload_len:
        raise ValueError(f"{where}: a batch of kind {kind}")
    at = 0

    def column(width, constant):
        nonlocal at
        start, at = at, at + width * count
        if width == 0:
            return [constant] * count
        return [int.from_bytes(payload[start + i * width : start + (i + 1) * width], "little") for i in range(count)]

    times = [time_min + delta for delta in column(tw, 0)]
    symbols, types, lengths = column(sw, symbol_const), column(yw, type_const), column(lw, length_const)
    if max(times) != time_max or bool(flags & 1) != (times == sorted(times)) or at + sum(lengths) != payload_len:
        raise ValueError(f"{where}: header and columns differ")
    for index, length in enumerate(lengths):
        yield times[index], sequence + index, symbols[index], types[index], version, payload[at : at + length]
        at += length


def check_index(data, header, found, where):
    """Compares the granules of an index with the batches of its log file."""
    granules = list(_GRANULE.iter_unpack(data[64:]))
    if len(granules) != header.count:
        raise ValueError(f"{where}: {len(granules)} granules, {header.count} stated")
    for offset, first, count, time_min, time_max, length, flags in granules:
        inside = [batch for batch in found if offset <= batch[0] < offset + length]
        times = [row[0] for batch in inside for row in batch[2]]
        is_ordered = times == sorted(times)
        stated = (first, count, time_min, time_max, length, flags & 1)
        real = (inside[0][2][0][1], len(times), min(times), max(times), sum(batch[1] for batch in inside), is_ordered)
        if stated != real:
            raise ValueError(f"{where}: a granule states {stated}, the log has {real}")


def symbols(data, checks, where):
    """The names of a symbol file by id; of several entries of an id the last counts."""
    names, at = [], 64
    while at < len(data):
        crc, number, length = struct.unpack_from("<IIH", data, at)
        end = at + 10 + length
        checks.compare("symbol", crc32c(data[at + 4 : end]), crc, where)
        name = data[at + 10 : end].decode()
        if number == len(names):
            names.append(name)
        else:
            names[number] = name
        at = end
    return names
