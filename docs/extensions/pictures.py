"""The directive `picture`: a drawing that a file in `docs/pictures` computes while the site is built.

The file has a function `draw() -> str`, which returns an SVG of `spectheory.report`. The directive shows it in the
colours of the page, light or dark. With the option `code` it shows the file below.
"""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from spectheory.report.page import figure_html

FOLDER = Path(__file__).parent.parent / "pictures"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Picture(SphinxDirective):
    """`picture:: best_tree` shows what `docs/pictures/best_tree.py` draws. The content is the caption."""

    required_arguments = 1
    has_content = True
    option_spec = {"code": directives.flag}  # noqa: RUF012  (as in docutils)

    def run(self) -> list[nodes.Node]:
        file = FOLDER / f"{self.arguments[0]}.py"
        self.env.note_dependency(file)
        drawing = nodes.container("", nodes.raw("", drawn(file), format="html"), classes=["picture"])
        if self.content:
            drawing += nodes.container("", *self.parse_content_to_nodes(), classes=["picture-caption"])
        if "code" not in self.options:
            return [drawing]
        code = nodes.literal_block("", file.read_text(encoding="utf-8").rstrip(), language="python")
        return [drawing, code]


def drawn(file: Path) -> str:
    """The figure that `file` draws, as HTML; each file is run once in a build."""
    if file not in DRAWN:
        DRAWN[file] = figure_html(run_path(str(file))["draw"]())
    return DRAWN[file]


DRAWN: dict[Path, str] = {}
