"""How Sphinx makes pages of this folder: `sphinx-build -W docs docs/_build`."""

project = "parallel_envs"
author = "The parallel_envs authors"
release = "0.1.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"

autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_use_ivar = True
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 2
suppress_warnings = ["myst.xref_missing"]  # Links that leave this folder.
