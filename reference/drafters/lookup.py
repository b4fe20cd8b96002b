"""PLD, prompt lookup: where the text has been here before, draft what followed then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from torch import Tensor

from reference.drafters.drafter import Drafter, Drafting
from reference.models import Pair
from reference.sampling import Sampling
from reference.uniforms import Uniforms
from spectheory import Draft, DrawRule, Tree
from spectheory.core.errors import InputError


@dataclass(frozen=True)
class PromptLookup(Drafter):
    """A chain of up to `max_tokens` tokens: what followed the last occurrence of the text's last n tokens.

    The longest n of `lengths` that occurred before decides, and of its occurrences the most recent one is copied (the
    published code copies the first). Without an occurrence nothing is drafted.

    Attributes:
        lengths: n-gram lengths.
        max_tokens: longest chain.
        overlap: let the copy run into itself, as in LZ77, so that a text that goes round in a loop is drafted as going
            on; if not, it ends where the text does, as the published one, and a loop costs one cycle a turn.

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
        """See Drafter.rule; the text fixes the one child of a node."""
        return DrawRule.TOP_K

    def start(self, pair: Pair, sampling: Sampling) -> LookupDrafting:
        """See Drafter.start."""
        return LookupDrafting(self)


def check_lengths(lengths: tuple[int, ...]) -> None:
    """Refuse what is no choice of n-gram lengths."""
    if not lengths or min(lengths) < 1:
        raise InputError(f"lengths must name at least one n-gram length, each at least 1, got {lengths}")


@dataclass(frozen=True)
class Match:
    """A continuation copied from the text.

    Attributes:
        tokens: what followed the occurrence of the longest n-gram; [] where there is none.
        length: how many of them stand in the text; those behind them were copied from the copy.
        consensus: whether a second n-gram length says that the same token comes first.
    """

    tokens: list[int]
    length: int
    consensus: bool


class TextIndex:
    """A text, and for each of its n-grams the place behind its last occurrence.

    A committed token costs one dictionary entry for each n-gram length, a look-up one access; nothing is scanned. An
    n-gram enters when the token behind it does, so the text's own end never matches itself.
    """

    def __init__(self, lengths: Iterable[int]) -> None:
        self.lengths = sorted(set(lengths), reverse=True)
        self.text: list[int] = []
        self.behind: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        """Append committed tokens."""
        for token in tokens:
            for gram in self._last_grams():
                self.behind[gram] = len(self.text)
            self.text.append(token)

    def match(self, most: int, *, overlap: bool) -> Match:
        """What followed the text's last n tokens when they last occurred, at most `most` tokens of it.

        Two lengths that found one occurrence agree, too: only a more recent occurrence of the shorter n-gram can speak
        against the longer one.
        """
        places = [self.behind[gram] for gram in self._last_grams() if gram in self.behind]
        if not places or most < 1:
            return Match([], 0, False)
        first = [self.text[place] for place in places]
        period = len(self.text) - places[0]
        length = min(most, period)
        tokens = [self.text[places[0] + i % period] for i in range(most if overlap else length)]
        return Match(tokens, length, first.count(first[0]) > 1)

    def _last_grams(self) -> list[tuple[int, ...]]:
        """Those that end the text, longest first."""
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
    """A decoder that meets a tree again has its mask already: the same chain is the same object."""
    return Tree.chain(length), (*((node,) for node in range(1, length + 1)), ())
