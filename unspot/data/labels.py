"""Former names of ``unspot.data.concept``, until every room uses the new ones."""

from __future__ import annotations

from typing import Any

from unspot.data.columns import (
    TWO_CONCEPTS,
    as_array,
    check_length,
    doubt,
    encode_as,
    is_continuous,
    label_type,
    missing_values,
    plain_objects,
    uncast,
)
from unspot.data.concept import Classes as Labels
from unspot.data.concept import Number as Measurements

__all__ = [
    "TWO_CONCEPTS",
    "Labels",
    "Measurements",
    "as_array",
    "check_length",
    "doubt",
    "encode",
    "encode_as",
    "is_continuous",
    "label_type",
    "measure",
    "missing_values",
    "plain_objects",
    "refuse_ids",
    "uncast",
]

encode = Labels.read
measure = Measurements.read


def refuse_ids(labels: Any, name: str = "z") -> None:
    labels.refuse_ids(name)
