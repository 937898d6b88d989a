"""CRC-32C (docs/format/batch.md) and CRC-64/NVME (docs/format/segment.md), with a table of one byte each."""


def _table(polynomial):
    """The remainders of all bytes, for a reflected polynomial."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _table(0x82F63B78)
_CRC64_NVME = _table(0x9A6C9329AC4BC9B5)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def crc64_nvme(data):
    crc = 0xFFFFFFFFFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC64_NVME[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFFFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283
assert crc64_nvme(b"123456789") == 0xAE8B14860A799888


class Checks:
    """Counts the checksums that were compared, by what they cover; one that differs ends the program."""

    def __init__(self):
        self.counts = {}

    def compare(self, what, found, expected, where):
        if found != expected:
            raise ValueError(f"{where}: checksum of {what} is {found:x}, not {expected:x}")
        self.counts[what] = self.counts.get(what, 0) + 1
