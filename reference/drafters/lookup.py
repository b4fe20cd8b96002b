"""Prompt lookup (PLD): where the end of the text occurred before, draft what followed it then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.drafters.kind import DrafterKind
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class PromptLookup(Drafter):
    """A chain of up to `max_tokens` tokens: what followed the last occurrence of the text's last n tokens.

    The longest n of `lengths` with an earlier occurrence is used, and its most recent occurrence is copied (the
    published code copies the first). Without an occurrence nothing is drafted.

    Attributes:
        lengths: n-gram lengths.
        max_tokens: longest chain.
        overlap: let the copy run into itself, as in LZ77, so that a text that repeats itself is drafted further; if
            not, the copy ends where the text ends, as in the published code.

    Raises:
        InputError: there are no lengths, or one of them or `max_tokens` is below 1.

    Source: prompt-lookup-decoding (Saxena, 2023), whose defaults these are; ContextMatch of Goose, Appendix B.2.
    """

    lengths: tuple[int, ...] = (3, 2, 1)
    max_tokens: int = 10
    overlap: bool = True

    def __post_init__(self) -> None:
        check_lengths(self.lengths)
        if self.max_tokens < 1:
            raise InputError(f"max_tokens must be at least 1, got {self.max_tokens}")

    def rule(self, sampling: Sampling) -> DrawRule:
        """See Drafter.rule; the text determines the one child of a node."""
        return DrawRule.TOP_K

    def start(self, pair: Pair, sampling: Sampling) -> LookupDrafting:
        """See Drafter.start."""
        return LookupDrafting(self)


def check_lengths(lengths: tuple[int, ...]) -> None:
    """Raise InputError if these are not n-gram lengths."""
    if not lengths or min(lengths) < 1:
        raise InputError(f"lengths must name at least one n-gram length, each at least 1, got {lengths}")


@dataclass(frozen=True)
class Match:
    """A continuation copied from the text.

    Attributes:
        tokens: what followed the occurrence of the longest n-gram; [] where there is none.
        length: how many of them are copied from the text; the others are copied from the copy.
        consensus: whether another n-gram length gives the same first token.
    """

    tokens: list[int]
    length: int
    consensus: bool


class TextIndex:
    """A text, and for each of its n-grams the position after its last occurrence.

    A committed token costs one dictionary entry for each n-gram length, a look-up one access; nothing is scanned. An
    n-gram is entered together with the token after it, so that the end of the text never matches itself.
    """

    def __init__(self, lengths: Iterable[int]) -> None:
        self.lengths = sorted(set(lengths), reverse=True)
        self.text: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        """Append committed tokens."""
        for token in tokens:
            for gram in self._last_grams():
                self.after[gram] = len(self.text)
            self.text.append(token)

    def match(self, most: int, *, overlap: bool) -> Match:
        """At most `most` tokens that followed the last earlier occurrence of the text's last n tokens.

        Two lengths that find the same occurrence agree as well: only a more recent occurrence of the shorter n-gram can
        differ from the longer one.
        """
        places = [self.after[gram] for gram in self._last_grams() if gram in self.after]
        if not places or most < 1:
            return Match([], 0, False)
        first = [self.text[place] for place in places]
        period = len(self.text) - places[0]
        length = min(most, period)
        tokens = [self.text[places[0] + i % period] for i in range(most if overlap else length)]
        return Match(tokens, length, first.count(first[0]) > 1)

    def _last_grams(self) -> list[tuple[int, ...]]:
        """The n-grams at the end of the text, longest first."""
        return [tuple(self.text[-length:]) for length in self.lengths if length <= len(self.text)]


class LookupDrafting(Drafting):
    """A text drafted from itself."""

    def __init__(self, settings: PromptLookup) -> None:
        self.settings = settings
        self.index = TextIndex(settings.lengths)

    def read(self, prompt: list[int], logits: Tensor) -> None:
        """See Drafting.read."""
        self.index.extend(prompt)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        """See Drafting.commit."""
        self.index.extend(emitted)

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        """See Drafting.grow."""
        most = min(room, self.settings.max_tokens)
        return chain(self.index.text[-1], self.index.match(most, overlap=self.settings.overlap).tokens)


def chain(root: int, tokens: list[int]) -> Draft:
    """`tokens` one after another below `root`."""
    tree, draws = _shape(len(tokens))
    return Draft._unchecked(tree, [root, *tokens], [None] * (len(tokens) + 1), draws, DrawRule.TOP_K)


@cache
def _shape(length: int) -> tuple[Tree, tuple[tuple[int, ...], ...]]:
    """Cached: a decoder keeps the mask of a tree that is the same object as in the last cycle."""
    return Tree.chain(length), (*((node,) for node in range(1, length + 1)), ())


KIND = DrafterKind.of(PromptLookup(), "prompt lookup", PromptLookup((2, 1), 3))
