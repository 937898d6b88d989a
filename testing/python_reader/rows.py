"""Bodies of messages (docs/format/message.md): bytes to values, and contents of fields to bytes."""

import math
import struct
from datetime import datetime, timedelta, timezone

_NUMBERS = {
    "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "f32": "<f", "f64": "<d",
}  # fmt: skip


def body(record, contents):
    """A body of the contents of its fields: bytes of slots, or contents of variable fields; None is null."""
    nullable = [content is None for field, content in zip(record.fields, contents) if field.nullable]
    fixed = bytearray(bitmap(nullable))
    fixed_len = len(fixed) + sum(field.type.width or 4 for field in record.fields)
    heap = bytearray()
    for field, content in zip(record.fields, contents):
        if field.type.width is None:
            heap += content or b""
            fixed += struct.pack("<I", fixed_len + len(heap))
        else:
            fixed += bytes(field.type.width) if content is None else content
    return bytes(fixed + heap)


def array(item, contents):
    """An array's content of those of its items."""
    out = bytearray(struct.pack("<I", len(contents)))
    if item.nullable:
        out += bitmap([content is None for content in contents])
    width, kind = item.type.width, item.type.kind
    for content in contents:
        if width is not None:
            out += bytes(width) if content is None else content
        elif kind == "record":
            # A null is one zero byte, and so is a record without fields.
            out += content or b"\0"
        else:
            out += struct.pack("<I", len(content or b"")) + (content or b"")
    return bytes(out)


def bitmap(bits):
    out = bytearray((len(bits) + 7) // 8)
    for index, bit in enumerate(bits):
        out[index // 8] |= bit << index % 8
    return out


def is_set(bits, index):
    return bits[index // 8] >> index % 8 & 1 == 1


def record(type_, data):
    """The values of a body by field, nulls left out; the length of the body is that of `data`."""
    values, end = _record(type_, data, 0)
    if end != len(data):
        raise ValueError(f"{type_.name}: {len(data) - end} bytes left over")
    return values


def _record(type_, data, start):
    """Values and end of the body that begins at `start`."""
    nullable = sum(field.nullable for field in type_.fields)
    nulls = data[start : start + (nullable + 7) // 8]
    slot = start + len(nulls)
    content = slot + sum(field.type.width or 4 for field in type_.fields)
    values, seen = {"$type": type_.name}, 0
    for field in type_.fields:
        is_null = field.nullable and is_set(nulls, seen)
        seen += field.nullable
        width = field.type.width
        if width is None:
            end = start + struct.unpack_from("<I", data, slot)[0]
            value = None if is_null else _content(field.type, data, content, end)
            content = end
            slot += 4
        else:
            value = None if is_null else scalar(field.type, data[slot : slot + width])
            slot += width
        values[field.name] = value
    return values, content


def _content(type_, data, start, end):
    if type_.kind == "string":
        return data[start:end].decode()
    if type_.kind == "binary":
        return data[start:end].hex()
    if type_.kind == "record":
        value, at = _one_of(type_, data, start)
    else:
        value, at = _items(type_.item, data, start)
    if at != end:
        raise ValueError(f"{type_.kind}: content ends at {at}, not at {end}")
    return value


def _one_of(type_, data, start):
    if len(type_.records) == 1:
        return _record(type_.records[0], data, start)
    return _record(type_.records[data[start]], data, start + 1)


def _items(item, data, start):
    count = struct.unpack_from("<I", data, start)[0]
    at = start + 4
    nulls = b""
    if item.nullable:
        nulls = data[at : at + (count + 7) // 8]
        at += len(nulls)
    values = []
    for index in range(count):
        is_null = item.nullable and is_set(nulls, index)
        width, kind = item.type.width, item.type.kind
        if width is not None:
            value = None if is_null else scalar(item.type, data[at : at + width])
            at += width
        elif kind == "record":
            if is_null:
                value, at = None, at + 1
            else:
                value, end = _one_of(item.type, data, at)
                at = max(end, at + 1)
        else:
            length = struct.unpack_from("<I", data, at)[0]
            value = None if is_null else _content(item.type, data, at + 4, at + 4 + length)
            at += 4 + length
        values.append(value)
    return values, at


def scalar(type_, slot):
    """A value of fixed width, as JSON has it: texts for what is exact and no number of JSON."""
    kind = type_.kind
    if kind in _NUMBERS:
        number = struct.unpack(_NUMBERS[kind], slot)[0]
        return number if kind not in ("f32", "f64") or math.isfinite(number) else _not_finite(number)
    if kind == "ascii":
        return slot.rstrip(b"\0").decode("ascii")
    number = int.from_bytes(slot, "little")
    if kind == "bool":
        return number == 1
    if kind == "enum":
        return type_.enum.symbols[number]
    if kind == "char":
        return chr(number)
    if kind == "decimal64":
        return decimal64_text(number)
    signed = int.from_bytes(slot, "little", signed=True)
    if kind == "decimal":
        return plain(signed < 0, abs(signed), -type_.size)
    return timestamp_text(signed) if kind == "timestamp" else clock_text(signed)


def _not_finite(number):
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def decimal64(bits):
    """Sign, coefficient and exponent of a finite decimal64; None for infinities and NaN."""
    if bits >> 59 & 0xF == 0xF:
        return None
    negative = bits >> 63 == 1
    if bits >> 61 & 3 == 3:
        return negative, (bits & (1 << 51) - 1) + (1 << 53), (bits >> 51 & 0x3FF) - 398
    return negative, bits & (1 << 53) - 1, (bits >> 53 & 0x3FF) - 398


def decimal64_bits(negative, coefficient, exponent):
    if coefficient >= 1 << 53:
        return negative << 63 | 3 << 61 | (exponent + 398) << 51 | coefficient - (1 << 53)
    return negative << 63 | (exponent + 398) << 53 | coefficient


def decimal64_text(bits):
    finite = decimal64(bits)
    if finite is None:
        if bits >> 58 & 1:
            return "NaN"
        return "-Infinity" if bits >> 63 else "Infinity"
    return plain(*finite)


def plain(negative, coefficient, exponent):
    sign, digits = "-" if negative else "", str(coefficient)
    if exponent > 0:
        return f"{sign}{digits}e{exponent}"
    digits = digits.rjust(1 - exponent, "0")
    point = len(digits) + exponent
    return sign + digits[:point] + ("." + digits[point:] if exponent else "")


def timestamp_text(nanoseconds):
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + _fraction(fraction) + "Z"


def clock_text(nanoseconds):
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + _fraction(fraction)


def _fraction(nanoseconds):
    """Three, six or nine digits, none for whole seconds."""
    digits = f"{nanoseconds:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return "." + digits if digits else ""
