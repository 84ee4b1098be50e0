# SPDX-License-Identifier: Apache-2.0
"""
What other packages' objects hold, found by their attributes: nothing is imported that the application did not import.
"""

from __future__ import annotations

import sys

from collections import UserString
from collections.abc import Callable, Iterable, Iterator, MappingView, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import orjson


MAX_ROWS: Final = 32_768
"""
Items of one array that are looked at in one step: more than an event keeps.
"""

_BUILT_IN: Final[tuple[Any, ...]] = (list, tuple, set, frozenset)
_FIELD_NAMES: Final = ("__struct_fields__", "_fields")
_SEQUENCES: Final = (Sequence, AbstractSet, MappingView)


def field_names(value: Any, kind: type) -> Iterable[str] | None:
    """
    Names of the attributes that an object of *kind* consists of; None where it is no such object.

    Dataclasses, attrs, pydantic 1 and 2, msgspec, and named tuples. Names with a leading underscore are private and
    left out, as orjson does with dataclasses; so are fields that pydantic is told to exclude.
    """
    if kind is dict or kind is list or kind is tuple:
        return None
    fields = getattr(kind, "__dataclass_fields__", None)
    if isinstance(fields, dict):
        names: Iterable[str] = [name for name, field in fields.items() if _is_real(field)]
    elif isinstance(attributes := getattr(kind, "__attrs_attrs__", None), tuple):
        names = [attribute.name for attribute in attributes]
    elif (names_of_model := _pydantic_names(value, kind)) is not None:
        names = names_of_model
    else:
        return _listed_names(kind)
    return [name for name in names if not name.startswith("_")]


def _is_real(field: Any) -> bool:
    """
    Whether *field* of a dataclass is one, and not an ``InitVar`` or a ``ClassVar``.
    """
    return getattr(getattr(field, "_field_type", None), "name", "") == "_FIELD"


def _pydantic_names(value: Any, kind: type) -> Iterable[str] | None:
    fields = getattr(kind, "__pydantic_fields__", None)
    if isinstance(fields, dict):
        extra = getattr(value, "__pydantic_extra__", None) or ()
    else:
        fields = getattr(kind, "__fields__", None)
        if not isinstance(fields, dict) or not hasattr(kind, "__fields_set__"):
            return None
        extra = vars(value)
    own = [name for name, field in fields.items() if not _is_excluded(field)]
    return [*own, *(name for name in extra if name not in fields)]


def _is_excluded(field: Any) -> bool:
    info = getattr(field, "field_info", field)
    return getattr(info, "exclude", None) is True


def _listed_names(kind: type) -> Iterable[str] | None:
    for attribute in _FIELD_NAMES:
        names = getattr(kind, attribute, None)
        if isinstance(names, tuple) and (attribute != "_fields" or issubclass(kind, tuple)):
            return names
    return None


def sequence_of(value: Any, kind: type) -> Callable[[], Iterable[Any]] | None:
    """
    What gives the items of *value*; None where it is no sequence, no set, and no view of a mapping.

    Iterators are none of these: they are not consumed. Subclasses of list, tuple and set are read as what they hold.
    """
    for base in _BUILT_IN:
        if issubclass(kind, base):
            return partial(base.__iter__, value)
    if is_numpy(kind):
        return partial(_rows, value) if getattr(value, "ndim", 0) else None
    if issubclass(kind, _SEQUENCES) and not issubclass(kind, UserString):
        return partial(iter, value)
    return None


def _rows(array: Any) -> Iterator[Any]:
    """
    The first items of a numpy array. Integers and float64 come in one step.
    """
    if array.ndim == 1 and (array.dtype.kind in "biu" or array.dtype.str[1:] == "f8"):
        array = array[:MAX_ROWS].tolist()
    return iter(array)


def is_uuid(kind: type) -> bool:
    """
    Whether *kind* is `uuid.UUID` itself. The module is not imported here: it makes ids from clocks and dice.
    """
    return kind is getattr(sys.modules.get("uuid"), "UUID", None)


def is_numpy(kind: type) -> bool:
    """
    Whether *kind* is one of numpy's scalars or arrays.
    """
    numpy = sys.modules.get("numpy")
    scalar, array = getattr(numpy, "generic", None), getattr(numpy, "ndarray", None)
    return scalar is not None and array is not None and issubclass(kind, (scalar, array))


def numpy_parts(value: Any) -> Any:
    """
    A numpy scalar, or an array without dimensions, as Python's own value; other arrays themselves.
    """
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.ndarray):
        if value.ndim:
            return value
        value = value[()]
    if not isinstance(value, numpy.generic):
        return value
    try:
        # Not `item()`: that would write the float32 0.1 as 0.10000000149011612.
        native = orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    except TypeError:
        native = value.item()
        return str(value) if isinstance(native, numpy.generic) else native
    return float(value) if native is None else native
