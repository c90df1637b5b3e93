"""How Sphinx makes pages of this folder: `sphinx-build -W docs docs/_build`."""

from __future__ import annotations

from typing import Any

import parallel_envs

project = "parallel_envs"
author = "The parallel_envs authors"
release = parallel_envs.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"

autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
# What is written of the adapter can be read where they are not installed.
autodoc_mock_imports = ["reverb", "tensorflow", "tf_agents"]
autodoc_typehints = "description"
default_role = "code"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 2
napoleon_use_ivar = True
suppress_warnings = ["myst.xref_missing"]  # Links that leave this folder.


def setup(app: Any) -> None:
    """Has docstrings read before napoleon (priority 500) sees them."""
    app.connect("autodoc-process-docstring", mark_literal_blocks, priority=400)


def mark_literal_blocks(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Writes `::` for the `:` before an indented block, which is code or a table.

    Docstrings are read in the source more often than here, where a single colon is
    what one expects. Sections of Google's style have no blank line after theirs.
    """
    for index, line in enumerate(lines[:-2]):
        is_followed_by_block = not lines[index + 1].strip() and _indentation(
            lines[index + 2]
        ) > _indentation(line)
        if line.endswith(":") and not line.endswith("::") and is_followed_by_block:
            lines[index] = f"{line}:"


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
