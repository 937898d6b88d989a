"""One column of a block (docs/format/segment-encodings.md): bytes to integers, floats and texts."""

import struct
import zlib

MASK = (1 << 64) - 1


class NotDecoded(Exception):
    """A pcodec file: the format of another project, which the standard library does not read."""


class Bytes:
    """A cursor over bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError(f"{count} bytes needed at {self.at} of {len(self.data)}")
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def rest(self):
        return self.take(len(self.data) - self.at)

    def number(self, width):
        return int.from_bytes(self.take(width), "little")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value & MASK

    def signed_varint(self):
        return unzigzag(self.varint())


def unzigzag(number):
    return number >> 1 ^ -(number & 1)


def signed(number):
    number &= MASK
    return number - (1 << 64) if number >> 63 else number


def bits(data, width, count):
    """Numbers of `width` bits from one stream, low bits first."""
    stream, mask = int.from_bytes(data, "little"), (1 << width) - 1
    return [stream >> width * index & mask for index in range(count)]


def four_lanes(data, width):
    """128 numbers of up to 32 bits: number i in lane i % 4, the lanes' 32-bit words alternate."""
    words = [data[at : at + 4] for at in range(0, len(data), 4)]
    lanes = [bits(b"".join(words[lane::4]), width, 32) for lane in range(4)]
    return [lanes[index % 4][index // 4] for index in range(128)]


def residuals(source, width, count):
    if count < 128:
        return bits(source.take((count * width + 7) // 8), width, count)
    if width <= 32:
        return four_lanes(source.take(16 * width), width)
    low = four_lanes(source.take(512), 32)
    high = four_lanes(source.take(16 * (width - 32)), width - 32)
    return [low | high << 32 for low, high in zip(low, high)]


def groups(source, count):
    flags = source.number(1)
    base_width, has_exceptions = flags & 0xF, flags & 0x10
    column_base = source.signed_varint()
    sizes = [min(128, count - start) for start in range(0, count, 128)]
    widths = source.take(len(sizes))
    exceptions = source.take(len(sizes)) if has_exceptions else bytes(len(sizes))
    bases = [column_base + source.number(base_width) for _ in sizes]
    numbers = []
    for size, width, base in zip(sizes, widths, bases):
        numbers += [base + residual for residual in residuals(source, width, size)]
    for group, (count, base) in enumerate(zip(exceptions, bases)):
        if count:
            width = source.number(1)
            places = source.take(count)
            for place in places:
                numbers[128 * group + place] = base + unzigzag(source.number(width))
    return [number & MASK for number in numbers]


def split_numbers(source, count):
    widths = groups(source, count)
    lengths = [max(width - 1, 0) for width in widths]
    stream = int.from_bytes(source.take((sum(lengths) + 7) // 8), "little")
    numbers = []
    for width, length in zip(widths, lengths):
        numbers.append((stream & (1 << length) - 1 | 1 << length) if width else 0)
        stream >>= length
    return numbers


def sums(firsts, differences, ends):
    """Each run's first value, then the differences within it."""
    numbers, start = [], 0
    for first, end in zip(firsts, ends):
        value = first
        numbers.append(value)
        for difference in differences[start + 1 : end]:
            value = value + difference & MASK
            numbers.append(value)
        start = end
    return numbers


def lagging_sums(firsts, differences, ends, places):
    """Each run's first value, then the differences to the value so many places before, or to the first."""
    numbers, start = [], 0
    for first, end in zip(firsts, ends):
        numbers.append(first)
        for index in range(start + 1, end):
            numbers.append(numbers[max(start, index - places)] + differences[index] & MASK)
        start = end
    return numbers


def integers(source, count, ends):
    """`count` values of 64 bits, unsigned; `ends` says where runs end."""
    tag = source.number(1)
    encoding = tag & 0xF
    if tag & 0x40:
        divisor, offset = source.varint(), source.signed_varint()
        scales = [(divisor, offset)] * len(ends)
    elif tag & 0x20:
        divisors, offsets = groups(source, len(ends)), groups(source, len(ends))
        scales = list(zip(divisors, offsets))
    else:
        scales = None
    numbers = _integers(source, encoding, count, ends)
    if scales:
        scaled, start = [], 0
        for (divisor, offset), end in zip(scales, ends):
            scaled += [number * divisor + offset & MASK for number in numbers[start:end]]
            start = end
        numbers = scaled
    if len(numbers) != count:
        raise ValueError(f"{len(numbers)} numbers where {count} are stated")
    return numbers


def _integers(source, encoding, count, ends):
    if encoding == 0:
        return [source.signed_varint() & MASK] * count
    if encoding == 1:
        return list(struct.unpack(f"<{count}Q", source.take(8 * count)))
    if encoding == 2:
        return groups(source, count)
    if encoding == 3:
        firsts = groups(source, len(ends))
        return sums(firsts, groups(source, count), ends)
    if encoding == 4:
        distinct = groups(source, source.varint())
        return [distinct[index] for index in groups(source, count)]
    if encoding == 5:
        repetitions = source.varint()
        lengths, values = groups(source, repetitions), groups(source, repetitions)
        return [value for value, length in zip(values, lengths) for _ in range(length)]
    if encoding == 6:
        raise NotDecoded("integers in pcodec")
    if encoding == 7:
        smallest = source.signed_varint()
        return [smallest + number & MASK for number in split_numbers(source, count)]
    if encoding == 8:
        firsts = groups(source, len(ends))
        return sums(firsts, [unzigzag(number) for number in split_numbers(source, count)], ends)
    if encoding in (9, 10, 11):
        places = source.number(1)
        if not 1 <= places <= 8:
            raise ValueError(f"differences to {places} places before")
        firsts = groups(source, len(ends))
        if encoding == 11:
            raise NotDecoded("differences in pcodec")
        differences = groups(source, count) if encoding == 9 else map(unzigzag, split_numbers(source, count))
        return lagging_sums(firsts, list(differences), ends, places)
    raise ValueError(f"no encoding {encoding} of integers")


def floats(source, count, ends, width):
    """`count` bit patterns of floats of `width` bytes."""
    tag = source.number(1)
    if tag == 0:
        return integers(source, count, ends)
    if tag == 2:
        raise NotDecoded("floats in pcodec")
    exponent, factor, exceptions = source.number(1), source.number(1), source.varint()
    places = groups(source, exceptions)
    patterns = [source.number(width) for _ in places]
    power, inverse = float(f"1e{factor}"), float(f"1e-{exponent}")
    values = [float(signed(number)) * power * inverse for number in integers(source, count, ends)]
    pack, unpack = ("<d", "<Q") if width == 8 else ("<f", "<I")
    out = [struct.unpack(unpack, struct.pack(pack, value))[0] for value in values]
    for place, pattern in zip(places, patterns):
        out[place] = pattern
    return out


def texts(source, count):
    tag = source.number(1)
    compression = tag & 0xF0
    if tag & 0xF == 0:
        return _plain_texts(source, count, compression)
    distinct = source.varint()
    part = Bytes(source.take(source.varint()))
    strings = _plain_texts(part, distinct, compression)
    return [strings[index] for index in integers(source, count, [count] if count else [])]


def _plain_texts(source, count, compression):
    part = Bytes(source.take(source.varint()))
    lengths = integers(part, count, [count] if count else [])
    data = Bytes(decompress(source.rest(), compression, sum(lengths)))
    return [data.take(length) for length in lengths]


def decompress(data, compression, size):
    if compression == 0x10:
        data = lz4_block(data)
    elif compression == 0x20:
        data = zlib.decompress(data, wbits=-15)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes of texts where {size} are stated")
    return data


def lz4_block(data):
    source, out = Bytes(data), bytearray()

    def length(nibble):
        total = nibble
        while nibble == 15:
            byte = source.number(1)
            total += byte
            if byte < 255:
                break
        return total

    while source.at < len(data):
        token = source.number(1)
        out += source.take(length(token >> 4))
        if source.at == len(data):
            break
        distance = source.number(2)
        for _ in range(length(token & 0xF) + 4):
            out.append(out[-distance])
    return bytes(out)
