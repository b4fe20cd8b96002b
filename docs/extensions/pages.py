"""Pages that are read on a code host too: their anchors and their links to files above `docs` work on the site.

`<a id="name"></a>` on a line of its own becomes a target of MyST, and `../CONTRIBUTING.md` the page that includes it. A
pattern such as `engines/*` in a table of contents may match no page.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
PATTERN = re.compile(r"^[\w/]+\*$", re.MULTILINE)
ABOVE = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, PAGES))})")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def rewrite(app: Sphinx, page: str, source: list[str]) -> None:
    text = ANCHOR.sub(r"(\1)=", source[0])
    text = PATTERN.sub(lambda found: found[0] if any(Path(app.srcdir).glob(f"{found[0]}.md")) else "", text)
    source[0] = ABOVE.sub(lambda found: f"](/{PAGES[found[1]]}", text)
