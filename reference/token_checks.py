"""Checks of token ids that callers pass: prompts, and texts that continue them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from reference.models import Pair
from spectheory.core.errors import InputError


def check_tokens(name: str, tokens: Any, vocab_size: int) -> None:
    """Refuse what is not a list of token ids of a vocabulary. Errors call it `name`.

    Raises:
        InputError: the message names the first entry that is not a token.
    """
    if not isinstance(tokens, (list, tuple)):
        raise InputError(
            f"{name} must be a list of token ids, got a {type(tokens).__name__}: pass {name}.tolist(), or "
            "what the tokenizer gives as 'input_ids'"
        )
    for place, token in enumerate(tokens):
        if not isinstance(token, Integral) or isinstance(token, bool) or not 0 <= int(token) < vocab_size:
            raise InputError(
                f"{name}[{place}] is {token!r:.60}: token ids are whole numbers from 0 to {vocab_size - 1}, "
                f"encode the {name.partition('[')[0].removesuffix('s')} with this pair's tokenizer"
            )


def check_context(pair: Pair, prompts: Sequence[list[int]], new_tokens: int) -> None:
    """Raise InputError for prompts that do not fit the models' context with as many new tokens."""
    if (need := max(map(len, prompts)) + new_tokens) > pair.context:
        raise InputError(
            f"prompts and new tokens need a context of {need}, these models have {pair.context}: shorten the prompts"
        )


def check_continued(pair: Pair, prompts: Sequence[list[int]], texts: Sequence[list[int]]) -> None:
    """Refuse prompts and the texts after them that these models cannot have read and written.

    Raises:
        InputError: there is not one prompt for each text, a prompt or a text is empty or holds something else than
            tokens, or a prompt and its text do not fit the context.
    """
    for name, several in (("prompts", prompts), ("texts", texts)):
        if not isinstance(several, (list, tuple)):
            raise InputError(f"{name} must be a list of lists of token ids, got a {type(several).__name__}")
    if len(prompts) != len(texts) or not texts:
        raise InputError(
            f"prompts and texts must be as many, at least one of each, got {len(prompts)} prompts and {len(texts)} "
            "texts: give the prompt of every text"
        )
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        for name, tokens in ((f"prompts[{number}]", prompt), (f"texts[{number}]", text)):
            check_tokens(name, tokens, pair.vocab_size)
            if not tokens:
                raise InputError(f"{name} must hold at least one token, got none: leave out this prompt and its text")
        if (need := len(prompt) + len(text)) > pair.context:
            raise InputError(
                f"prompts[{number}] of {len(prompt)} tokens and its text of {len(text)} need a context of {need}, "
                f"these models have {pair.context}: shorten them"
            )
