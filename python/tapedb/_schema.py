"""Schema texts of classes: dataclasses, pydantic models, named tuples; and of Arrow schemas."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import types as pytypes
import typing
from typing import Any, Iterable

from . import _tapedb
from ._errors import SchemaError
from .types import Type

_PLAIN = {
    bool: "bool",
    int: "i64",
    float: "f64",
    str: "string",
    bytes: "binary",
    decimal.Decimal: "decimal64",
    dt.datetime: "timestamp",
    dt.time: "time_of_day",
}
_ARRAYS = (list, tuple, typing.Sequence, *([typing.List, typing.Tuple]))


def schema_of(described: Any, *, name: str = "Message") -> tuple[str, dict[str, type]]:
    """The text of a schema, and the classes that its records and enums were made from, by name.

    `described` is a text, a class, several classes (the message types), or anything with an Arrow schema (the message type is then
    called `name`, and its columns `time` and `symbol` are left out).
    """
    if isinstance(described, str):
        return _tapedb.check_schema(described), {}
    from ._stream import Stream

    if isinstance(described, Stream):
        return described.schema, {}
    is_arrow = hasattr(described, "__arrow_c_schema__") or hasattr(described, "__arrow_c_stream__")
    if is_arrow and not isinstance(described, type):
        return _tapedb.schema_of_arrow(described, name, ["time", "symbol", "sequence", "space", "stream"]), {}
    if _is_polars_schema(described):
        import polars as pl

        columns: Any = described
        return schema_of(pl.DataFrame(schema=columns), name=name)
    classes = list(described) if isinstance(described, (list, tuple)) else [described]
    if not classes:
        raise SchemaError("a stream needs a message type; give a class")
    writer = _Writer()
    for cls in classes:
        if not isinstance(cls, type):
            raise SchemaError(f"{cls!r} does not describe messages; give a dataclass, a pydantic model, an Arrow schema or a schema text")
        writer.record(cls, is_message=True)
    return _tapedb.check_schema(writer.text()), writer.known


def known_of(classes: Iterable[type]) -> dict[str, type]:
    """Classes by the names of their records, with those that they refer to."""
    writer = _Writer()
    for cls in classes:
        writer.record(cls, is_message=True)
    return writer.known


def _is_polars_schema(described: Any) -> bool:
    return type(described).__name__ == "Schema" and type(described).__module__.startswith("polars")


# Stands for `message` or `record` until all classes are known. No text of a class has it.
_KIND = "\0"


class _Writer:
    """Writes classes as record types, each once."""

    def __init__(self) -> None:
        self.known: dict[str, type] = {}
        self.parts: dict[str, str] = {}
        self.messages: set[str] = set()

    def text(self) -> str:
        return "\n".join(part.replace(_KIND, "message" if name in self.messages else "record", 1) for name, part in self.parts.items())

    def claim(self, cls: type) -> bool:
        """Whether the class is new; two classes of one name are an error."""
        known = self.known.setdefault(cls.__name__, cls)
        if known is not cls:
            raise SchemaError(f"there are two classes called {cls.__name__}: {known!r} and {cls!r}; rename one")
        return cls.__name__ not in self.parts

    def record(self, cls: type, is_message: bool) -> None:
        if is_message:
            self.messages.add(cls.__name__)
        if not self.claim(cls):
            return
        self.parts[cls.__name__] = ""
        lines = []
        for field, hint, default, doc in _fields_of(cls):
            kind, nullable = self.type(hint, f"{cls.__name__}.{field}")
            lines += [f"    /// {line}".rstrip() for line in (doc or "").splitlines()]
            lines.append(f"    {field}: {kind}{'?' if nullable else ''}{_default(default, kind)},")
        about = "".join(f"/// {line}".rstrip() + "\n" for line in _doc_of(cls).splitlines())
        # What it refers to was written while its fields were: it comes behind them.
        del self.parts[cls.__name__]
        self.parts[cls.__name__] = f"{about}{_KIND} {cls.__name__} {{\n" + "\n".join(lines) + "\n}"

    def enumeration(self, cls: type[enum.Enum]) -> str:
        if self.claim(cls):
            symbols = []
            for number, member in enumerate(cls):
                value = member.value if isinstance(member.value, int) and not isinstance(member.value, bool) else number
                symbols.append(f"{member.name} = {value}")
            self.parts[cls.__name__] = f"enum {cls.__name__} {{ {', '.join(symbols)} }}"
        return cls.__name__

    def type(self, hint: Any, where: str) -> tuple[str, bool]:
        """The type of a hint, and whether it may be None."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            for extra in arguments[1:]:
                if isinstance(extra, Type):
                    return extra.text, False
            return self.type(arguments[0], where)
        if origin in (typing.Union, pytypes.UnionType):
            options = [option for option in arguments if option is not type(None)]
            nullable = len(options) < len(arguments)
            if len(options) == 1:
                kind, inner = self.type(options[0], where)
                return kind, nullable or inner
            records = [self.nested(option, where) for option in options]
            return f"record<{'|'.join(records)}>", nullable
        if origin in (list, tuple) or (origin is not None and getattr(origin, "__name__", "") == "Sequence"):
            items = [argument for argument in arguments if argument is not Ellipsis]
            if len(items) != 1:
                raise SchemaError(f"{where}: {hint} has items of several types; an array has one, such as list[float]")
            kind, nullable = self.type(items[0], where)
            return f"array<{kind}{'?' if nullable else ''}>", False
        if hint in _PLAIN:
            return _PLAIN[hint], False
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return self.enumeration(hint), False
        if isinstance(hint, type) and _has_fields(hint):
            return f"record<{self.nested(hint, where)}>", False
        raise SchemaError(
            f"{where}: {hint!r} is not a type of messages; use bool, int, float, str, bytes, Decimal, datetime, an Enum, list[…], a "
            "dataclass, or one of tapedb.types"
        )

    def nested(self, cls: Any, where: str) -> str:
        if not (isinstance(cls, type) and _has_fields(cls)):
            raise SchemaError(f"{where}: a union may have None and dataclasses, not {cls!r}")
        self.record(cls, is_message=False)
        return cls.__name__


_MISSING = object()


def _has_fields(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) or hasattr(cls, "model_fields") or hasattr(cls, "_fields")


def _fields_of(cls: type) -> list[tuple[str, Any, Any, str | None]]:
    """Name, hint, default and documentation of each field."""
    hints = typing.get_type_hints(cls, include_extras=True)
    if dataclasses.is_dataclass(cls):
        fields = dataclasses.fields(cls)
        return [
            (f.name, hints[f.name], _MISSING if f.default is dataclasses.MISSING else f.default, f.metadata.get("doc"))
            for f in fields
        ]
    if hasattr(cls, "model_fields"):
        return [
            (name, hints[name], _MISSING if f.is_required() or f.default_factory else f.default, f.description)
            for name, f in cls.model_fields.items()
        ]
    if hasattr(cls, "_fields"):
        defaults = getattr(cls, "_field_defaults", {})
        return [(name, hints[name], defaults.get(name, _MISSING), None) for name in cls._fields]
    raise SchemaError(f"class {cls.__name__} has no fields that are known; make it a dataclass: put @dataclass above it")


def _doc_of(cls: type) -> str:
    """The documentation of a class, but not the one that dataclasses write."""
    doc = cls.__dict__.get("__doc__") or ""
    return "" if doc.startswith(f"{cls.__name__}(") else inspect.cleandoc(doc)


def _default(default: Any, kind: str) -> str:
    if default is _MISSING:
        return ""
    if default is None:
        return " = null"
    if isinstance(default, bool):
        return f" = {str(default).lower()}"
    if isinstance(default, enum.Enum):
        return f" = {default.name}"
    if isinstance(default, (int, decimal.Decimal)):
        return f" = {default}"
    if isinstance(default, float):
        return f" = {default!r}" if default - default == 0 else ""
    if isinstance(default, str) and kind != "binary":
        return f" = {json.dumps(default, ensure_ascii=False)}"
    return ""
