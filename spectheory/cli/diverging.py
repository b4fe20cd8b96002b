"""The command `divergence`: where two greedy texts differ first, and whether rounding explains it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spectheory.cli.options import Json
from spectheory.cli.output import console
from spectheory.core.errors import InputError
from spectheory.core.files import from_json, read_text

if TYPE_CHECKING:
    from reference.divergence import GreedyText, TextComparison


def divergence(
    one: Annotated[
        Path,
        typer.Argument(
            metavar="ONE",
            help="File of one text, such as the text without speculation. It holds plain text or a JSON list of token "
            "ids.",
        ),
    ],
    other: Annotated[
        Path, typer.Argument(metavar="OTHER", help="File of the other text, such as the text with speculation.")
    ],
    prompt: Annotated[
        Path,
        typer.Option(help="File of the prompt with its chat template: plain text, or a JSON list of token ids."),
    ],
    target: Annotated[
        Path | None, typer.Option(help="Folder of the target model.", show_default="shipped target")
    ] = None,
    dtype: Annotated[
        Literal["bfloat16", "float16", "float32"], typer.Option(help="Data type in which the server computes.")
    ] = "bfloat16",
    device: Annotated[str, typer.Option(help="Device for the target, such as cpu or cuda.")] = "cpu",
    attention: Annotated[
        Literal["sdpa", "eager"], typer.Option(help="Attention implementation of transformers.")
    ] = "sdpa",
    as_json: Json = False,
) -> None:
    """Find where two greedy texts of one prompt differ first, and tell rounding from bugs.

    The target reads both texts in float32. A token whose logit is below the largest one by more than rounding explains
    is no greedy choice of this model: the exit status is then 1.
    """
    import torch

    from reference.divergence import compare_texts
    from reference.models import TARGET

    found = compare_texts(
        *(_text(file) for file in (prompt, one, other)),
        target=target or TARGET,
        dtype=getattr(torch, dtype),
        device=device,
        attention=attention,
    )
    if as_json:
        print(json.dumps(_plain(found), indent=1))
    else:
        for line in _words(found, (str(one), str(other))):
            console.print(line, highlight=False, soft_wrap=True)
    if found.verdict == "not explained":
        raise typer.Exit(1)


def _text(file: Path) -> str | list[int]:
    """The text in a file, or the token ids if it holds a JSON list."""
    text = read_text(file)
    if not text.lstrip().startswith("["):
        return text
    try:
        found = from_json(text)
    except ValueError:
        return text
    if not isinstance(found, list):
        raise InputError(f"{file} must hold text or a JSON list of token ids")
    return found


def _plain(found: TextComparison) -> dict[str, Any]:
    margin = None if found.divergence is None else found.divergence.margin
    totals = {"rounding": found.rounding, "shortfall": found.shortfall, "margin": margin, "verdict": found.verdict}
    return asdict(found) | totals


def _words(found: TextComparison, names: tuple[str, str]) -> list[str]:
    lines = ["no token differs where both texts have one"]
    if found.divergence is not None and found.words is not None:
        where = found.divergence
        lines = [
            f"the texts differ first at token {where.position}: {found.words[0]!r} (logit {where.logits[0]:.6f}) and "
            f"{found.words[1]!r} (logit {where.logits[1]:.6f}); margin {where.margin:.2g} in float32"
        ]
    lines += [_of_text(name, text) for name, text in zip(names, found.texts, strict=True)]
    lines.append(f"{found.dtype} changes such differences by up to {found.rounding:.2g} on these texts")
    said = {
        "equal": "the texts agree wherever both have a token, and are greedy texts of this model",
        "rounding": "rounding explains the difference: both texts are greedy texts of this model",
        "not explained": "rounding does not explain this: a text has a token that this model does not choose greedily "
        "(another model, chat template or sampling, or a bug)",
    }
    return [*lines, said[found.verdict]]


def _of_text(name: str, text: GreedyText) -> str:
    if text.position is None:
        return f"{name}: all {text.tokens} tokens have the largest logit"
    return (
        f"{name}: {text.others} of {text.tokens} tokens do not have the largest logit, by at most {text.shortfall:.2g} "
        f"(token {text.position})"
    )
