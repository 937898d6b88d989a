"""The types of fields, for classes that describe messages.

```python
from dataclasses import dataclass
from decimal import Decimal
from tapedb.types import U32, ascii_, decimal_

@dataclass
class Trade:
    price: Decimal            # decimal64: exact, at any scale
    size: U32
    venue: ascii_(4)
    fee: decimal_(4) | None   # decimal(18,4)
```

Plain classes of Python are: `bool`, `int` (i64), `float` (f64), `str`, `bytes`, `decimal.Decimal` (decimal64), `datetime.datetime`
(timestamp), `datetime.time` (time_of_day), an `enum.Enum`, `list[…]`, another dataclass, and unions of these with `None`.
"""

from __future__ import annotations

import decimal as _decimal
from dataclasses import dataclass as _dataclass
from typing import Annotated, Any


@_dataclass(frozen=True)
class Type:
    """A type of the schema language, such as `Type("u32")`, for `Annotated[int, Type("u32")]`."""

    text: str


I8 = Annotated[int, Type("i8")]
I16 = Annotated[int, Type("i16")]
I32 = Annotated[int, Type("i32")]
I64 = Annotated[int, Type("i64")]
U8 = Annotated[int, Type("u8")]
U16 = Annotated[int, Type("u16")]
U32 = Annotated[int, Type("u32")]
U64 = Annotated[int, Type("u64")]
F32 = Annotated[float, Type("f32")]
F64 = Annotated[float, Type("f64")]
Decimal64 = Annotated[_decimal.Decimal, Type("decimal64")]
Timestamp = Annotated[int, Type("timestamp")]
"""Nanoseconds since 1970, UTC, as an integer."""
TimeOfDay = Annotated[int, Type("time_of_day")]
"""Nanoseconds since midnight, as an integer."""
Char = Annotated[str, Type("char")]


def ascii_(size: int) -> Any:
    """`ascii(n)`: a text of up to 1 to 16 ASCII characters."""
    return Annotated[str, Type(f"ascii({size})")]


def decimal_(scale: int) -> Any:
    """`decimal(18,s)`: an exact number with 0 to 18 digits after the point."""
    return Annotated[_decimal.Decimal, Type(f"decimal(18,{scale})")]
