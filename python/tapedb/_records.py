"""Makes the classes of messages and nested records."""

from __future__ import annotations

import functools
import types
from typing import Any, NoReturn, Sequence

from ._tapedb import Field, Message, Record


# Others cannot be names of fields.
_HEADER = ("datetime", "sequence", "space", "stream")


def class_of(
    name: str, doc: str, fields: Sequence[tuple[str, str, str, bool]], is_message: bool, user: type | None
) -> type:
    """The class of a record type: each field is an attribute.

    Where the schema was made from a class of Python (`user`), objects count as instances of it: `isinstance`, `match` and its methods
    and properties work.
    """
    base = Message if is_message else Record
    namespace: dict[str, Any] = {"__slots__": (), "__module__": "tapedb", "__qualname__": name, "__doc__": doc or None}
    if user is not None:
        namespace.update(_methods_of(user))
        # `isinstance` and `match` ask the object for its class, where its type is another one.
        namespace["__class__"] = property(lambda self: user)
    namespace["__reduce_ex__"] = _reduce
    namespace["__match_args__"] = tuple(field for field, *_ in fields)
    if is_message:
        # Where a field has the name of an attribute of all messages, that one has a longer name, as its column has.
        for field, *_ in fields:
            if field in _HEADER:
                namespace[f"message_{field}"] = vars(Message)[field]
    for index, (field, kind, about, nullable) in enumerate(fields):
        described = f"{kind}{' or None' if nullable else ''}{': ' + about if about else ''}"
        namespace[field] = Field(index, field, described)
    return type(name, (base,), namespace)


def _reduce(self: Record, protocol: Any) -> NoReturn:
    kind = "message" if isinstance(self, Message) else "record"
    raise TypeError(f"a {kind} cannot be pickled, for its class belongs to its stream; to_dict() and to_json() give what can be")


def _methods_of(user: type) -> dict[str, Any]:
    """What people wrote into a class, without what Python or a library put there."""
    kinds = (types.FunctionType, property, classmethod, staticmethod, functools.cached_property)
    found: dict[str, Any] = {}
    for base in reversed(user.__mro__[:-1]):
        if base.__module__.split(".")[0] in ("pydantic", "typing", "abc"):
            continue
        for name, value in vars(base).items():
            if isinstance(value, kinds) and not name.startswith("__"):
                if isinstance(value, functools.cached_property):
                    value = property(value.func)
                found[name] = value
    return found
