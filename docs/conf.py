"""Settings of the documentation. The build needs no network."""

from __future__ import annotations

import os
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from unspot import __version__

project = "unspot"
author = "The unspot developers"
copyright = f"{date.today().year}, {author}"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # equations without a network
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "generated_lists",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_generated", "gallery/**/*.ipynb", "gallery/**/*.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

# -- Markdown ------------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# -- API -----------------------------------------------------------------------------------------

# autodoc lists the members already.
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autodoc_typehints = "none"  # the docstrings say the types, in words
autodoc_member_order = "bysource"
add_module_names = False
python_use_unqualified_type_names = True

# -- Examples ------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    # Examples take minutes: `make gallery` runs them, `make docs` shows only their code.
    "plot_gallery": os.environ.get("UNSPOT_GALLERY") == "1",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "min_reported_time": 60,
    "show_memory": False,
    "write_computation_times": False,  # a page that would only crowd the search
    "show_signature": False,
    "reset_modules_order": "before",
}

# -- the look ------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "unspot"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "unspot"},
    "navbar_align": "left",
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "friendly",
    "pygments_dark_style": "github-dark",
}
# One list of all pages, beside every page.
html_sidebars = {"**": ["all-pages.html"]}
html_context = {"default_mode": "auto"}
