"""Reports: results as one self-contained HTML file, as figures, and as tables for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspot.lazy import lazy

if TYPE_CHECKING:
    from unspot.report.html import to_html as to_html
    from unspot.report.views import make_views as make_views

__getattr__, __dir__, __all__ = lazy(__name__, {"html": "to_html", "views": "make_views"})
