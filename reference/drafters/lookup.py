"""Prompt lookup (PLD): find an earlier occurrence of the end of the text, and draft what followed it there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile

from torch import Tensor

from reference.drafters.drafter import Drafter, DrafterKind, Drafting, undrawn
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from spectheory import Draft, Tree
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError

NO_TOKEN = -1


@dataclass(frozen=True)
class PromptLookup(Drafter):
    """Drafts a chain: the tokens that followed an earlier occurrence of the last n tokens of the text.

    n is the largest of `lengths` that has an earlier occurrence. The most recent occurrence is copied; the published
    code copies the first. The copy may run into itself, as in LZ77, so that repeated text is drafted further; in the
    published code it ends where the text ends. Without an occurrence in the text a `corpus` is searched in the same
    way, as a datastore; without one there, too, nothing is drafted.

    Attributes:
        lengths: values of n to try.
        max_tokens: maximum number of drafted tokens.
        corpus: texts of token ids, such as answers to earlier prompts.

    Raises:
        InputError: there are no lengths, or one of them or `max_tokens` is below 1.

    Source: prompt-lookup-decoding (Saxena, 2023), whose defaults `lengths` and `max_tokens` have; ContextMatch of
    Goose, Appendix B.2.
    """

    lengths: tuple[int, ...] = (3, 2, 1)
    max_tokens: int = 10
    corpus: tuple[tuple[int, ...], ...] = field(default=(), repr=False)

    @cached_property
    def store(self) -> TextIndex:
        """The texts of the corpus, each after a token that no text has."""
        index = TextIndex(self.lengths)
        index.extend(token for text in self.corpus for token in (NO_TOKEN, *text))
        return index

    def __post_init__(self) -> None:
        check_lengths(self.lengths)
        check_whole("max_tokens", self.max_tokens, 1)

    def start(self, pair: Pair, sampling: Sampling) -> LookupDrafting:
        return LookupDrafting(self)


def check_lengths(lengths: tuple[int, ...]) -> None:
    """Raise InputError unless `lengths` are n-gram lengths: at least one, each at least 1."""
    if not lengths or min(lengths) < 1:
        raise InputError(f"lengths must name at least one n-gram length, each at least 1, got {lengths}")


@dataclass(frozen=True)
class Match:
    """A continuation copied from the text.

    Attributes:
        tokens: tokens that followed the longest n-gram; [] if it did not occur before.
        length: number of tokens up to the end of the text; the tokens after them repeat them.
        consensus: whether an n-gram of another length was followed by the same first token.
    """

    tokens: list[int]
    length: int
    consensus: bool


class TextIndex:
    """A text, and for each of its n-grams the position after its last occurrence.

    A new token costs one dictionary entry for each n-gram length, a lookup one access; nothing is scanned. An n-gram is
    entered when the token after it is known, so the end of the text never matches itself.
    """

    def __init__(self, lengths: Iterable[int]) -> None:
        self.lengths = sorted(set(lengths), reverse=True)
        self.text: list[int] = []
        self.after: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens to the text."""
        for token in tokens:
            for gram in self.last_grams():
                self.after[gram] = len(self.text)
            self.text.append(token)

    def match(self, most: int) -> Match:
        """Find the last earlier occurrence of the end of the text, and return at most `most` tokens that followed it.

        Two lengths that find the same occurrence count as consensus, too: only a more recent occurrence of the shorter
        n-gram can give another token.
        """
        places = [self.after[gram] for gram in self.last_grams() if gram in self.after]
        if not places or most < 1:
            return Match([], 0, False)
        first = [self.text[place] for place in places]
        period = len(self.text) - places[0]
        tokens = [self.text[places[0] + i % period] for i in range(most)]
        return Match(tokens, min(most, period), first.count(first[0]) > 1)

    def last_grams(self) -> list[tuple[int, ...]]:
        """The n-grams at the end of the text, longest first."""
        return [tuple(self.text[-length:]) for length in self.lengths if length <= len(self.text)]


class LookupDrafting(Drafting):
    """Drafts one text by copying from the text itself."""

    def __init__(self, settings: PromptLookup) -> None:
        self.settings = settings
        self.index = TextIndex(settings.lengths)

    def read(self, prompt: list[int], logits: Tensor) -> None:
        self.index.extend(prompt)

    def commit(self, path: list[int], emitted: list[int], logits: Tensor | None = None) -> None:
        self.index.extend(emitted)

    def grow(self, room: int, rng: Uniforms | None) -> Draft:
        most, store = min(room, self.settings.max_tokens), self.settings.store
        tokens = self.index.match(most).tokens
        places = (store.after[gram] for gram in self.index.last_grams() if gram in store.after)
        if not tokens and (place := next(places, None)):
            tokens = [*takewhile(lambda token: token != NO_TOKEN, store.text[place : place + most])]
        return chain(self.index.text[-1], tokens)


def chain(root: int, tokens: list[int]) -> Draft:
    """A draft of `tokens`, one after another below the token `root`."""
    return undrawn(_chain(len(tokens)), [root, *tokens])


_chain = cache(Tree.chain)
"""Cached, because a decoder keeps the mask of a tree that is the same object as in the last cycle."""


KIND = DrafterKind.of(PromptLookup(), "prompt lookup", PromptLookup((2, 1), 3))
