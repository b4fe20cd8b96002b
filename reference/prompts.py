"""Prompts from a JSON Lines file, texts or chats; by default pieces of files that the shipped pair did not learn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reference.library_sources import standard_library
from reference.models import SHIPPED, Pair, PairFiles
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.core.record import parse

HELD_OUT = SHIPPED / "held_out.jsonl"
Prompt = str | list[dict[str, Any]]
"""A text to continue, or the messages of a chat to reply to, each with its `role` and `content`."""
FIELDS = """a field 'text', as in {"text": "def"}, or 'messages', as in [{"role": "user", "content": "Hi"}]"""


def load_prompts(
    path: Path = HELD_OUT, count: int | None = None, skip: int = 0, *, least_skip: int = 0
) -> list[Prompt]:
    """Read `count` prompts, or all, after the first `skip`: JSON Lines or a JSON array, each with `text` or `messages`.

    Raises:
        InputError: the file is missing, a line is damaged, or there are too few prompts; the message suggests a `count`
            and a `skip`, at least `least_skip`, that fit the file.
    """
    prompts: list[Prompt] = []
    for place, held in _objects(path):
        prompt = held.get("text", held.get("messages")) if isinstance(held, dict) else None
        chat = isinstance(prompt, list) and all(isinstance(m, dict) and {"role", "content"} <= {*m} for m in prompt)
        if not prompt or not (chat or isinstance(prompt, str)):
            raise InputError(f"{place} must be a JSON object with {FIELDS}, not empty: correct it")
        prompts.append(prompt)
    if not prompts:
        raise InputError(f"prompts file {path} holds no prompt: give it a JSON object with {FIELDS} on each line")
    there = len(prompts)
    if not 0 <= skip < there:
        least, half = min(least_skip, there - 1), there // 2 if least_skip else 0
        raise InputError(
            f"skip must be between {least} and {there - 1} ({path} has {there} prompts), got {skip} (given, or the "
            f"default): give --skip {half} --count {min(there - half, count or there)}"
        )
    if count is not None and not 0 < count <= there - skip:
        raise InputError(
            f"prompts must be between 1 and {there - skip} ({path} has {there}, {skip} are skipped), got {count} "
            f"(given, or the default): give --count {there - skip}"
        )
    return prompts[skip:][:count]


def load_sources(path: Path, field: str, count: int, skip: int = 0) -> tuple[str, ...]:
    """The value of `field` of each prompt that `load_prompts` reads, as text: prompts of one value are one cluster.

    Raises:
        InputError: the file cannot be read, a prompt has no such field, or all have the same value.
    """
    prompts = _objects(path)[skip:][:count]
    for place, held in prompts:
        if held.get(field) is None:
            raise InputError(f"{place} has no field {field!r:.80}: give it one, or leave --cluster {field:.80} out")
    if len(sources := {str(held[field]) for _, held in prompts}) < 2:
        raise InputError(
            f"{path} has one {field} in these {len(prompts)} prompts, {sources.pop()!r:.80}, and an interval needs 2: "
            "take more prompts, mix them, or leave --cluster out"
        )
    return tuple(str(held[field]) for _, held in prompts)


def _objects(path: Path) -> list[tuple[str, Any]]:
    """The values of JSON Lines, or of a JSON array, each with its place for messages."""
    if (text := read_text(path)).lstrip().startswith("["):
        return [(f"{path}, entry {number}", held) for number, held in enumerate(parse(text, str(path)), start=1)]
    lines = [(f"{path}, line {number}", line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    return [(place, parse(line, place)) for place, line in lines]


def encode_prompts(
    pair: Pair | PairFiles,
    prompts: Sequence[Prompt],
    longest: int | None = None,
    first: int = 0,
    *,
    new_tokens: int = 1,
) -> list[list[int]]:
    """The tokens of each prompt, with those that the tokenizer or the model's chat template adds.

    Args:
        pair: the models with their tokenizer.
        prompts: texts, and chats that the model is to reply to.
        longest: maximum number of tokens. A longer text is cut; a longer chat is refused, because a cut would take the
            end of its template.
        first: number of the first prompt, for error messages.
        new_tokens: number of tokens that will follow a prompt in the models' context.

    Raises:
        InputError: the tokenizer has no chat template for a chat or the template refuses it, a prompt has no tokens, or
            is too long.
    """
    if longest is not None and longest < 1:
        raise InputError(f"prompt tokens must be at least 1, got {longest}")
    rows = []
    for number, prompt in enumerate(prompts, start=first):
        name = f"prompt {number} of the file, counted from 0,"
        row = _chat(pair, name, prompt) if isinstance(prompt, list) else pair.tokenizer(prompt)["input_ids"][:longest]
        if not row:
            raise InputError(f"{name} has no tokens: leave it out")
        if longest is not None and len(row) > longest:
            raise InputError(
                f"{name} is a chat of {len(row)} tokens, --prompt-tokens allows {longest}: raise it or leave the chat "
                "out, a cut would take the end of its template"
            )
        if len(row) + new_tokens > pair.context:
            raise InputError(
                f"{name} has {len(row)} tokens and {new_tokens} follow, the models have a context of {pair.context}: "
                "leave it out, lower --new-tokens, or cut texts with --prompt-tokens"
            )
        rows.append(row)
    return rows


def _chat(pair: Pair | PairFiles, name: str, messages: list[dict[str, Any]]) -> list[int]:
    if not pair.tokenizer.chat_template:
        raise InputError(
            f"{name} has messages, but target {pair.names[0]} has no chat template: use a model that is tuned for "
            "chats, or prompts with a field 'text'"
        )
    try:
        found: Any = pair.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    except Exception as error:
        raise InputError(
            f"{name} does not suit the chat template of target {pair.names[0]} ({error!s:.200}): change its messages"
        ) from error
    return found["input_ids"]


def training_texts(pair: Pair, folder: str = "") -> list[list[int]]:
    """The files that the shipped pair was trained on, as token ids of `pair`.

    With `folder`, such as "email/", only files in that folder of the standard library.
    """
    texts = [one.text for one in standard_library() if not one.is_held_out and one.name.startswith(folder)]
    return [list(row) for row in pair.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]]  # type: ignore[arg-type]
