"""Folders of drafts on the command line, as drafts that the judge can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from reference.judging.drafts import ForcedDraft, PairDraft
from reference.models import HEAD, Pair, with_draft
from spectheory.core.errors import InputError

SHIPPED_NAME = "shipped"
"""In place of a folder: the draft head that comes with the package."""


def forced_draft(pair: Pair, folder: Path, deepest: int) -> ForcedDraft:
    """The draft model or head in a folder, for the target of `pair` and trees of depth `deepest` at most.

    Raises:
        PairError: the folder holds no draft of this vocabulary.
        InputError: the folder holds a draft head for another target.
    """
    place = HEAD if str(folder) == SHIPPED_NAME and not folder.exists() else folder
    return PairDraft(with_draft(pair, place), max(1, deepest))


def named_folders(named: Iterable[str]) -> dict[str, list[Path]]:
    """The folders in texts such as "talf=seed0,seed1": a name, then the folders of its runs.

    Raises:
        InputError: a text has no name or no folder, a name occurs twice, a folder does not exist, or there are fewer
            than two names.
    """
    folders: dict[str, list[Path]] = {}
    for text in named:
        name, _, listed = text.partition("=")
        if not name or not listed or not all(listed.split(",")):
            raise InputError(f"group must be a name with its folders, such as talf=seed0,seed1, got {text!r:.80}")
        if name in folders:
            raise InputError(f"group {name} is named twice: list all its folders at once, as in {name}=seed0,seed1")
        folders[name] = [Path(folder) for folder in listed.split(",")]
        if absent := [place for place in folders[name] if str(place) != SHIPPED_NAME and not place.is_dir()]:
            raise InputError(f"group {name} has no folder {str(absent[0])!r:.300}: check the path")
    if len(folders) < 2:
        raise InputError(f"groups must be at least two, got {len(folders)}: name each draft with --group NAME=FOLDER")
    return folders


def read_groups(pair: Pair, folders: Mapping[str, list[Path]], deepest: int) -> dict[str, list[ForcedDraft]]:
    """The drafts in the folders of `named_folders`. Raises PairError and InputError as `forced_draft`."""
    return {name: [forced_draft(pair, folder, deepest) for folder in several] for name, several in folders.items()}
