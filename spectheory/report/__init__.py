"""What people look at: theory, simulation and measurement side by side, in the terminal, as figures, as one page.

`terminal` needs rich, `figures` and `page` need matplotlib; each is imported by its own name, so that comparing alone
stays light. Write a page with `spectheory.records.write_whole`.
"""

from spectheory.report.compare import Account, Comparison, accepted_distribution, compare

__all__ = ["Account", "Comparison", "accepted_distribution", "compare"]
