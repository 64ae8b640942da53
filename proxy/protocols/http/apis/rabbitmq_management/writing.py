"""JSON written anew from what was read: the same values, one spelling."""

from __future__ import annotations

from ...documents import Value, written


def compact(value: Value) -> str:
    """The value without white space; numbers keep their spelling, strings get Veil's."""
    if value.is_object:
        return "{" + ",".join(f"{written(name)}:{compact(each)}" for name, each in value.inside.items()) + "}"
    if value.is_array:
        return "[" + ",".join(compact(each) for each in value.inside) + "]"
    return value.number or written(value.inside)
