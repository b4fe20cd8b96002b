"""The site: `make docs`. Nothing is read from the network, and the pages load nothing from it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]

import spectheory  # noqa: E402  (from the checkout)

if not (CLAIMS_PAGE := HERE / "claims.md").exists():  # `make claims` writes it with the results of the checks
    from proofs_check.checked import unchecked_markdown

    CLAIMS_PAGE.write_text(unchecked_markdown(), encoding="utf-8")

TABLES = HERE.parent / "build" / "tables"  # `make docs` writes tables here, which end the pages of their names

project = "spectheory"
release = version = spectheory.__version__
project_copyright = "the authors of spectheory"
html_title = f"spectheory {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docstrings",
    "mathml",
    "pictures",
    "public_names",
    "rules",
]
exclude_patterns = ["extensions", "pictures/*.py", "*.py"]
html_math_renderer = "mathml"
smartquotes = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "py:obj"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "spectheory"},
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "show_toc_level": 2,
    "navigation_depth": 3,
    "pygments_light_style": "github-light",
    "pygments_dark_style": "github-dark",
}

# Pages are read on a code host too. `<a id="name"></a>` on a line of its own becomes a target of MyST, and
# `../CONTRIBUTING.md` the page that includes it; `engines/*` in a table of contents may match no page.
ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
PATTERN = re.compile(r"^[\w/]+\*$", re.MULTILINE)
ABOVE = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, PAGES))})")


def setup(app: Sphinx) -> None:
    app.connect("source-read", rewrite)


def rewrite(app: Sphinx, page: str, source: list[str]) -> None:
    if (tables := TABLES / f"{page}.md").exists():
        source[0] += tables.read_text(encoding="utf-8")
        app.env.note_dependency(tables)
    text = ANCHOR.sub(r"(\1)=", source[0])
    text = PATTERN.sub(lambda found: found[0] if any(Path(app.srcdir).glob(f"{found[0]}.md")) else "", text)
    source[0] = ABOVE.sub(lambda found: f"](/{PAGES[found[1]]}", text)
