"""The schema text (docs/format/schema.md): enums and record types."""

import re

_WIDTHS = {
    "bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8,
    "decimal64": 8, "decimal": 8, "timestamp": 8, "time_of_day": 8, "char": 4,
}  # fmt: skip
_TOKEN = re.compile(
    r'\s+|///[^\n]*|//[^\n]*|(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)'
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?P<mark>[{}\[\]():,=<>|?])"
)


class Type:
    """A field's or an item's type: `kind` is the word of the schema text, or `enum`."""

    def __init__(self, kind, size=0, enum=None, item=None, records=()):
        self.kind, self.size, self.enum, self.item, self.records = kind, size, enum, item, records

    @property
    def width(self):
        """Bytes of the slot; None for a variable field."""
        if self.kind == "ascii":
            return self.size
        if self.kind == "enum":
            return 1 if len(self.enum.symbols) <= 256 else 2
        return _WIDTHS.get(self.kind)


class Field:
    """A field or an array's item."""

    def __init__(self, name, type_, nullable, default=None, aliases=()):
        self.name, self.type, self.nullable, self.default, self.aliases = name, type_, nullable, default, aliases


class Enum:
    def __init__(self, name, symbols):
        self.name, self.symbols = name, symbols


class Record:
    def __init__(self, name, is_message, fields):
        self.name, self.is_message, self.fields = name, is_message, fields


class Schema:
    """`records` in the order of the text: a type id is an index in it."""

    def __init__(self, text):
        self._tokens = [(match.lastgroup, match.group()) for match in _matches(text) if match.lastgroup]
        self._at = 0
        self.enums, self.records = {}, []
        while self._at < len(self._tokens):
            word = self._take()
            if word == "enum":
                enum = self._enum()
                self.enums[enum.name] = enum
            elif word in ("record", "message"):
                self.records.append(self._record(word == "message"))
            else:
                raise ValueError(f"schema: neither enum nor record: {word}")
        self.by_name = {record.name: record for record in self.records}
        for record in self.records:
            for field in record.fields:
                self._resolve(field.type)

    def _resolve(self, type_):
        """Types of records and enums may be declared behind their use."""
        if type_.kind == "array":
            self._resolve(type_.item.type)
        elif type_.kind == "record":
            type_.records = [self.by_name[name] for name in type_.records]
        elif type_.kind == "enum":
            type_.enum = self.enums[type_.enum]

    def _peek(self):
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def _take(self, expected=None):
        token = self._peek()
        if token is None or expected is not None and token != expected:
            raise ValueError(f"schema: {token} where {expected or 'more'} is needed")
        self._at += 1
        return token

    def _has(self, mark):
        found = self._peek() == mark
        self._at += found
        return found

    def _list(self, end, part):
        parts = []
        while not self._has(end):
            parts.append(part())
            if not self._has(","):
                self._take(end)
                break
        return parts

    def _enum(self):
        name = self._take()
        self._take("{")

        def symbol():
            symbol = self._take()
            if self._has("="):
                self._take()
            return symbol

        return Enum(name, self._list("}", symbol))

    def _record(self, is_message):
        name = self._take()
        self._take("{")
        return Record(name, is_message, self._list("}", self._field))

    def _field(self):
        name = self._take()
        self._take(":")
        type_ = self._type()
        nullable, default, aliases = self._has("?"), None, []
        while self._peek() in ("=", "["):
            if self._has("="):
                default = self._tokens[self._at]
                self._at += 1
            else:
                self._take("[")
                self._take("alias")
                aliases = self._list("]", self._take)
        return Field(name, type_, nullable, default, aliases)

    def _type(self):
        word = self._take()
        if word == "ascii":
            self._take("(")
            size = int(self._take())
            self._take(")")
            return Type("ascii", size)
        if word == "decimal":
            self._take("(")
            self._take("18")
            self._take(",")
            scale = int(self._take())
            self._take(")")
            return Type("decimal", scale)
        if word == "array":
            self._take("<")
            item = self._type()
            nullable = self._has("?")
            self._take(">")
            return Type("array", item=Field("item", item, nullable))
        if word == "record":
            self._take("<")
            names = [self._take()]
            while self._has("|"):
                names.append(self._take())
            self._take(">")
            return Type("record", records=names)
        if word in _WIDTHS or word in ("string", "binary"):
            return Type(word)
        return Type("enum", enum=word)


def _matches(text):
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"schema: what is {text[at : at + 20]!r}?")
        at = match.end()
        yield match
