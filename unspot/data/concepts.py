"""Former names of ``unspot.data.concept``, until every room uses the new ones."""

from __future__ import annotations

from unspot.data.concept import KINDS, Classes, Column, Number, is_table
from unspot.data.concept import Table as Concepts

__all__ = ["KINDS", "Column", "Concepts", "Target", "is_table", "read_concepts"]

Target = Classes | Number
read_concepts = Concepts.read
