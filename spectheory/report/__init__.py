"""Reports for people: tables and drawings for the terminal, figures, and HTML pages.

Import each module by its own name: `terminal` loads rich; `figures` and the modules with pages load matplotlib. Save a
page with `spectheory.core.files.write_whole`.
"""
