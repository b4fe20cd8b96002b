"""What people look at: tables and pictures in the terminal, figures, and pages of HTML.

`terminal` needs rich, `figures` and the pages need matplotlib; each is imported by its own name. Write a page with
`spectheory.core.files.write_whole`.
"""
