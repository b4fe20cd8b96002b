"""Held-out prompts: pieces of files that the shipped pair has not seen, or a text file of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

from reference.models import SHIPPED, Pair
from reference.train.corpus import standard_library

HELD_OUT = SHIPPED / "held_out.jsonl"


def load_prompts(path: Path = HELD_OUT, count: int | None = None) -> list[str]:
    """The first `count` prompts of a JSON Lines file of objects with the field `text`.

    Raises:
        ValueError: the file is missing, a line is damaged, or there are fewer than `count` prompts.
    """
    if not path.is_file():
        raise ValueError(f"prompts file {path} does not exist: name a JSON Lines file with a field 'text' on each line")
    texts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            texts.append(str(json.loads(line)["text"]))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is not a JSON object with a field 'text'") from error
    if count is not None and not 0 < count <= len(texts):
        raise ValueError(f"prompts must be between 1 and {len(texts)} (those in {path}), got {count}")
    return texts[:count]


def encode_prompts(pair: Pair, texts: list[str], length: int) -> list[list[int]]:
    """The first `length` tokens of each text.

    Raises:
        ValueError: a text is shorter than that.
    """
    if length < 1:
        raise ValueError(f"prompt tokens must be at least 1, got {length}")
    rows = [pair.tokenizer(text, add_special_tokens=False)["input_ids"][:length] for text in texts]
    for index, row in enumerate(rows):
        if len(row) < length:
            raise ValueError(f"prompt {index} has {len(row)} tokens, {length} are needed: use longer prompts")
    return rows


def training_texts(pair: Pair) -> list[list[int]]:
    """What the shipped pair was trained on, file by file, as tokens of `pair`: the corpus of a datastore."""
    files = [file.text for file in standard_library() if not file.is_held_out]
    return [list(row) for row in pair.tokenizer(files, add_special_tokens=False)["input_ids"]]  # type: ignore[arg-type]
