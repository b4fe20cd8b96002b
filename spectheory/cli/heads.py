"""The commands of `spectheory head`: `inspect` and `convert`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spectheory.cli.options import Force, Json
from spectheory.cli.output import require_free

if TYPE_CHECKING:
    from reference.heads import HeadConfig, HeadFile

Folder = Annotated[Path, typer.Argument(help="Folder of the head: config.json and weights in safetensors.")]


def inspect(folder: Folder, as_json: Json = False) -> None:
    """Print what a draft head is, and for which target. Names, shapes and types of all tensors are checked."""
    from reference.heads import inspect_head

    found = inspect_head(folder)
    if as_json:
        print(json.dumps(_plain(found), indent=1))
        return
    for name, said in _lines(found).items():
        print(f"{name:<12}{said}")


def convert(
    folder: Folder,
    layout: Annotated[
        Literal["speculators", "sglang", "eagle", "spectheory"],
        typer.Option(
            "--to",
            help="Layout to write: of vLLM's speculators, of SGLang, of the EAGLE repository, or of this package, "
            "which expresses every head.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the converted head.")],
    force: Force = False,
) -> None:
    """Write a draft head in the layout of another library.

    If the other layout cannot express something, nothing is written, and the error names it.
    """
    from reference.heads import FILES, convert_head

    sources = [folder / name for name in FILES]
    require_free(sources, *(out / name for name in FILES), force=force)
    for path in convert_head(folder, layout, out, overwrite=True):
        print(f"wrote {path}")


def _plain(found: HeadFile) -> dict[str, Any]:
    """What a checkpoint of a head says, as JSON."""
    return {
        "layout": found.layout,
        "dtype": str(found.dtype).removeprefix("torch."),
        "parameters": found.parameters,
        **asdict(found.config),
        "tensors": found.shapes,
    }


def _lines(found: HeadFile) -> dict[str, str]:
    """What a checkpoint of a head says, line by line."""
    head = found.config
    own = "with its own embeddings" if head.own_embedding else "with the embeddings of its target"
    drafted = "all tokens" if head.draft_vocab_size is None else f"{head.draft_vocab_size:,} tokens"
    deep = "" if head.depths is None else f", {head.depths} deep in one forward"
    layer = f"{head.hidden_size:,} wide, MLP {head.intermediate_size:,}, heads {head.num_attention_heads}"
    names = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
    norms = "".join(f", {name}" for name in names if getattr(head, name))
    return {
        "head": f"{head.kind}{norms}, {own}",
        "layout": found.layout,
        "target": f"{head.target or 'not named'}: {head.feature_size:,} wide, {head.vocab_size:,} tokens",
        "reads": _reads(head),
        "drafts": drafted + deep,
        "layer": f"{layer} and {head.num_key_value_heads} of {head.head_dim}",
        "parameters": f"{found.parameters:,} in {str(found.dtype).removeprefix('torch.')}",
    }


def _reads(head: HeadConfig) -> str:
    if head.kind != "eagle3":
        return "the last hidden state of the target"
    layers = head.layers or ("2", "n // 2", "n - 3")
    return f"the inputs of layers {', '.join(map(str, layers))}" + ("" if head.layers else " of n")
