"""Formulas as MathML, which browsers typeset themselves: no script, no font and nothing from the network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

log = logging.getLogger(__name__)
SAME = {r"\dots": r"\ldots", r"\iff": r"\Longleftrightarrow", "{align}": "{aligned}", "{align*}": "{aligned}"}
"""What docutils knows under another name."""
WRITTEN = re.compile("|".join(re.escape(name) + (r"\b" if name[-1].isalpha() else "") for name in SAME))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (put_inline, None), (put_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def put_inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def put_block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math-block">{mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    """The formula of `node`. A formula that cannot be typeset is a warning, which ends the build of `make docs`.

    docutils raises an AttributeError for a line break outside of an environment.
    """
    formula = WRITTEN.sub(lambda found: SAME[found[0]], node.astext())
    try:
        return tex2mathml(formula, as_block=as_block)
    except (MathError, AttributeError) as error:
        log.warning("the formula %r cannot be typeset: %s", formula, error, location=node)
        return f"<code>{formula}</code>"
