"""What an engine has counted in a run, request by request, and the parts of two runs that can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from spectheory import engines
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters
from spectheory.engines.report_values import finite, pick
from spectheory.engines.reports import MODEL, SERVER, text_of
from spectheory.engines.statistics import NothingDraftedError
from spectheory.results.paired_difference import Ratio

CATEGORIES = ("category", "task", "dataset", "subset")
"""Fields of a response for the kind of its prompt. Engines write none of them: add one."""


@dataclass(frozen=True, eq=False)
class RequestCounts:
    """The counts of n requests in their order.

    Attributes:
        kind: kind of the reports, such as "vllm-response".
        said: what they say of the server, its model and its drafter.
        counts: tokens and target calls, then how often each drafted position was accepted and verified.
        categories, prompt_tokens: of each request; "" and 0 where they are not known.
    """

    kind: str
    said: set[str]
    counts: Int64[np.ndarray, "n parts 2"]
    categories: np.ndarray
    prompt_tokens: np.ndarray


def read_requests(path: Path) -> RequestCounts:
    """Read a run from a file that tells requests apart, or from a folder with a report of each request.

    The files of a folder are taken by name, shorter names first. Of scrapes, it has one before the first request and
    one after each.

    Raises:
        InputError: nothing can be read, or requests cannot be told apart.
    """
    files = sorted(path.iterdir(), key=lambda file: (len(file.name), file.name)) if path.is_dir() else [path]
    texts = [text_of(file) for file in files]
    kinds = engines.recognised_reports(texts[-1]) if texts else []
    if not kinds:
        names = ", ".join(engines.report_names())
        raise InputError(f"{path} has no report that can be read ({names}): `spectheory import` says what is wrong")
    reader = engines.engine_of(kinds[0]).readers[kinds[0]]
    requests: list[Any] = list(pairwise(texts)) if reader.scraped else texts * path.is_dir()
    if reader.requests is not None:
        requests = [each for text in texts for each in reader.requests(text)]
    if not requests:
        raise InputError(
            f"{path}: {kinds[0]} adds requests up, so that the spread between prompts is not known: give responses, or "
            "a folder with a report of each prompt"
        )
    rows = [_counted(f"{path}, request {i}", each, kinds[0]) for i, each in enumerate(requests, 1)]
    counts = np.array(list(zip_longest(*rows, fillvalue=(0, 0))), np.int64).swapaxes(0, 1)
    said = set(re.findall(f'{SERVER}|{MODEL}="[^"]*"', "\n".join(texts)))
    data = [each if isinstance(each, Mapping) else {} for each in requests]
    lengths = [finite(pick(one.get("usage") or one.get("meta_info") or one, ["prompt_tokens"])) or 0 for one in data]
    categories = np.array([str(pick(one, CATEGORIES) or "") for one in data])
    return RequestCounts(kinds[0], said, counts, categories, np.array(lengths))


def _counted(where: str, request: Any, kind: str) -> list[tuple[int, int]]:
    """The row of a request in `RequestCounts.counts`."""
    try:
        text = json.dumps(request) if isinstance(request, Mapping) else request
        found = engines.read_report(text, kind, min_trials=1)
    except NothingDraftedError:
        return [(0, 0)]
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if found.drafts is None or found.accepted is None:
        raise InputError(f"{where} has no number of cycles, which tau needs: give a report that has it")
    counted, row = found.acceptance, [(found.drafts + found.accepted, found.drafts)]
    if counted is None or counted.hits is None or counted.trials is None:
        return row
    return [*row, *zip(counted.hits[:, 0].tolist(), counted.trials.tolist(), strict=True)]


def compared_parts(reference: RequestCounts, now: RequestCounts) -> Iterator[tuple[str, Ratio, Ratio]]:
    """Name and counts of both runs: of all prompts, of positions, and of prompts by category and length.

    Parts with fewer than two prompts are left out. Prompt i of one run is compared with prompt i of the other.

    Raises:
        InputError: the runs are of different engines, or of servers that name different models or drafters.
    """
    facts = sorted(reference.said | now.said | {f"reports={run.kind}" for run in (reference, now)})
    names = [re.split("[=:']", fact)[0] for fact in facts]
    if other := [fact for fact, name in zip(facts, names, strict=True) if names.count(name) > 1]:
        raise InputError(f"both runs must be of one engine, model and drafter, got {', '.join(other):.300}")
    n = min(len(reference.counts), len(now.counts))
    categories, lengths = reference.categories[:n], reference.prompt_tokens[:n]
    middle, positions = np.median(lengths), min(reference.counts.shape[1], now.counts.shape[1])
    parts = [(f"position {i}" if i else "all prompts", i, np.full(n, True)) for i in range(positions)]
    parts += [(f"category {name}", 0, categories == name) for name in np.unique(categories) if name]
    parts += [(f"prompts of up to {middle:g} tokens", 0, lengths <= middle)] if middle else []
    parts += [("longer prompts", 0, lengths > middle)]
    for name, i, chosen in parts:
        old, new = (Ratio(*run.counts[:n, i][chosen].T) for run in (reference, now))
        if min(clusters(old.denominators), clusters(new.denominators)) > 1 or name == "all prompts":
            yield name, old, new
