"""The list of subjects, to which the files of adapters add theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from examples.gallery.copies import Copy
from examples.gallery.drafts import Verify
from spectheory import DrawPolicy, DrawRule, Levels
from spectheory.certify import Play

Adapter = Callable[[Copy], Verify | Play]
"""Returns what is certified, from a copy."""
SHAPES = {
    "chain": ((1,), (1, 1)),
    "node": ((1,),),
    "children": ((1,), (2,)),
    "tree": ((1,), (2,), (2, 1)),
}
"""Counts of draws by level, of the trees that are grown for a subject."""


@dataclass(frozen=True)
class Subject:
    """A published function, and how it is certified.

    Attributes:
        name: its key in the record.
        repository: owner/name, or the name of an installed package.
        file: its file in the repository.
        function: its name.
        adapter: returns a verifier that calls it in a copy, or a play of whole steps.
        shapes: a key of `SHAPES`.
        rule: how the children of a node are drawn.
        cases: number of worlds to search.
        reading: how we read the verdict.
    """

    name: str
    repository: str
    file: str
    function: str
    adapter: Adapter
    shapes: str = "chain"
    rule: DrawRule = DrawRule.IID
    cases: int = 30
    reading: str = ""

    @property
    def policies(self) -> list[DrawPolicy]:
        """The trees to grow."""
        return [Levels(counts, self.rule) for counts in SHAPES[self.shapes]]


SUBJECTS: dict[str, Subject] = {}
"""All subjects by name."""


def subject(
    repository: str,
    file: str,
    function: str,
    *,
    shapes: str = "chain",
    rule: DrawRule = DrawRule.IID,
    cases: int = 30,
    reading: str = "",
) -> Callable[[Adapter], Adapter]:
    """Decorator that adds a subject to the list, under the name of its adapter."""

    def added(adapter: Adapter) -> Adapter:
        name = adapter.__name__.replace("_", "-")
        SUBJECTS[name] = Subject(name, repository, file, function, adapter, shapes, rule, cases, reading)
        return adapter

    return added
