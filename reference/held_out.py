"""Every piece of the held-out files as a file of prompts: `python -m reference.held_out FILE`.

The shipped prompts are 160 random pieces, some of which overlap. These are disjoint pieces in random order, over 1,000
with the library of Python 3.11, for measurements that need many texts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reference.library_sources import standard_library
from reference.models import Pair, load_pair
from spectheory.core.files import write_whole

PIECE = 128
"""Tokens of a piece, from which the part before the first new line is then left out."""
LEAST = 64
"""Tokens that must be left of a piece, the default length of a prompt."""


def held_out_pieces(pair: Pair, seed: int = 0) -> list[str]:
    """Disjoint pieces of at least `LEAST` tokens that begin at the start of a line, from all held-out files."""
    found = [piece for file in standard_library() if file.is_held_out for piece in _pieces(pair, file.text)]
    return [found[i] for i in np.random.default_rng(seed).permutation(len(found))]


def _pieces(pair: Pair, text: str) -> Iterator[str]:
    def tokens(text: str) -> list[int]:
        return list(pair.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])  # type: ignore[arg-type]

    row = tokens(text)
    for start in range(0, len(row), PIECE):
        piece = pair.tokenizer.decode(row[start : start + PIECE])
        whole = str(piece).partition("\n")[2] if start else str(piece)
        if len(tokens(whole)) >= LEAST:
            yield whole


if __name__ == "__main__":
    pieces = held_out_pieces(load_pair())
    write_whole(Path(sys.argv[1]), "".join(json.dumps({"text": piece}) + "\n" for piece in pieces))
    print(f"wrote {len(pieces)} prompts to {sys.argv[1]}")
