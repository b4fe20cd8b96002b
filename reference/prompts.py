"""Prompts from a JSON Lines file, by default pieces of files that the shipped pair was not trained on."""

from __future__ import annotations

from pathlib import Path

from reference.library_sources import standard_library
from reference.models import SHIPPED, Pair
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.core.json_values import parse

HELD_OUT = SHIPPED / "held_out.jsonl"


def load_prompts(path: Path = HELD_OUT, count: int | None = None, skip: int = 0, *, least_skip: int = 0) -> list[str]:
    """Read `count` prompts, or all, after the first `skip`, from a JSON Lines file of objects with the field `text`.

    Raises:
        InputError: the file is missing, a line is damaged, or there are too few prompts; the message suggests a `count`
            and a `skip`, at least `least_skip`, that fit the file.
    """
    if path.is_dir():
        raise InputError(f"prompts file {path} is a folder: name a JSON Lines file with a field 'text' on each line")
    texts = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            held = parse(line, f"{path}, line {number}")
            text = held.get("text") if isinstance(held, dict) else None
            if not isinstance(text, str) or not text:
                raise InputError(
                    f"{path}, line {number} is not a JSON object with a field 'text' that is not empty, as in "
                    f'{{"text": "def"}}: correct it'
                )
            texts.append(text)
    if not texts:
        raise InputError(f"prompts file {path} holds no prompt: give it a JSON object with a field 'text' on each line")
    there = len(texts)
    if not 0 <= skip < there:
        fits = max(1, there - least_skip)
        raise InputError(
            f"skip must be between {there - fits} and {there - 1} ({path} has {there} prompts), got {skip} (given, or "
            f"the default): give --skip {there - fits} --count {min(fits, count or fits)}"
        )
    if count is not None and not 0 < count <= there - skip:
        raise InputError(
            f"prompts must be between 1 and {there - skip} ({path} has {there}, {skip} are skipped), got {count} "
            f"(given, or the default): give --count {there - skip}"
        )
    return texts[skip:][:count]


def encode_prompts(pair: Pair, texts: list[str], length: int, first: int = 0) -> list[list[int]]:
    """The first `length` tokens of each text.

    Raises:
        InputError: a text has fewer tokens; the message counts the texts from `first` on.
    """
    if length < 1:
        raise InputError(f"prompt tokens must be at least 1, got {length}")
    rows = [pair.tokenizer(text, add_special_tokens=False)["input_ids"][:length] for text in texts]
    for number, row in enumerate(rows, start=first):
        if len(row) < length:
            raise InputError(
                f"prompt {number} of the file, counted from 0, has {len(row)} tokens, {length} are needed: lower "
                "--prompt-tokens or use longer prompts"
            )
    return rows


def training_texts(pair: Pair, folder: str = "") -> list[list[int]]:
    """The files that the shipped pair was trained on, as token ids of `pair`: the corpus of a datastore.

    With `folder`, such as "email/", only files in that folder of the standard library.
    """
    files = [file for file in standard_library() if not file.is_held_out and file.name.startswith(folder)]
    texts = [file.text for file in files]
    return [list(row) for row in pair.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]  # type: ignore[arg-type]
