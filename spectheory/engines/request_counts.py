"""What an engine has counted in a run, request by request, and the parts of two runs that can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from spectheory import engines
from spectheory.core.errors import InputError
from spectheory.core.ratios import clusters
from spectheory.engines.report_values import finite
from spectheory.engines.reports import MODEL, SERVER, text_of
from spectheory.engines.statistics import NothingDraftedError
from spectheory.results.paired_difference import Ratio


class RequestCounts(NamedTuple):
    """The counts of n requests in their order, and what the reports `said` of their kind, model and drafter.

    A row of `counts` has the tokens and target calls, then how often each drafted position was accepted and verified.
    """

    said: set[str]
    requests: list[Any]
    counts: Int64[np.ndarray, "n parts 2"]


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
        raise InputError(f"{path} has no report that can be read: `spectheory import` says what is wrong")
    reader = engines.engine_of(kinds[0]).readers[kinds[0]]
    requests: list[Any] = list(pairwise(texts)) if reader.scraped else texts * path.is_dir()
    if reader.requests is not None:
        requests = [each for text in texts for each in reader.requests(text)]
    if not requests:
        raise InputError(f"{path}: {kinds[0]} adds all requests up: give responses, or a folder with a report of each")
    rows = [_counted(f"{path}, request {i}", each, kinds[0]) for i, each in enumerate(requests, 1)]
    counts = np.array(list(zip_longest(*rows, fillvalue=(0, 0))), np.int64).swapaxes(0, 1)
    said = {f"reports={kinds[0]}", *re.findall(f'{SERVER}|{MODEL}="[^"]*"', "\n".join(texts))}
    return RequestCounts(said, requests, counts)


def _counted(where: str, request: Any, kind: str) -> list[tuple[int, int]]:
    try:
        text = json.dumps(request) if isinstance(request, Mapping) else request
        found = engines.read_report(text, kind, min_trials=1)
    except NothingDraftedError:
        return [(0, 0)]
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if found.drafts is None or found.accepted is None:
        raise InputError(f"{where} has no number of cycles, which tau needs: give a report that has it")
    row = [(found.drafts + found.accepted, found.drafts)]
    rates = found.acceptance
    if rates is not None and rates.hits is not None and rates.trials is not None:
        row += zip(rates.hits[:, 0].tolist(), rates.trials.tolist(), strict=True)
    return row


def compared_parts(reference: RequestCounts, now: RequestCounts) -> dict[str, tuple[Ratio, Ratio]]:
    """Counts of both runs: of all prompts, the first part, of positions, and of prompts by category and length.

    Prompt i of one run is compared with prompt i of the other. Parts with fewer than two prompts are left out, and
    those of which nothing is accepted.

    Raises:
        InputError: the runs are of different engines, or of servers that name different models or drafters.
    """
    facts = sorted(reference.said | now.said)
    names = [re.split("[=:']", fact)[0] for fact in facts]
    if other := [fact for fact, name in zip(facts, names, strict=True) if names.count(name) > 1]:
        raise InputError(f"both runs must be of one engine, model and drafter, got {', '.join(other):.300}")
    n = min(len(reference.counts), len(now.counts))
    data = [one if isinstance(one, Mapping) else {} for one in reference.requests[:n]]
    usage = [one.get("usage") or one.get("meta_info") or one for one in data]
    lengths = np.array([finite(at.get("prompt_tokens")) or 0 if isinstance(at, Mapping) else 0 for at in usage])
    categories = np.array([str(one.get("category", "")) for one in data])
    middle, positions = np.median(lengths), min(reference.counts.shape[1], now.counts.shape[1])
    parts = {f"position {i}" if i else "all prompts": (i, np.full(n, True)) for i in range(positions)}
    parts |= {f"category {name}": (0, categories == name) for name in np.unique(categories) if name}
    parts |= {f"prompts of up to {middle:g} tokens": (0, lengths <= middle)} if middle else {}
    found = {}
    for name, (i, chosen) in (parts | {"longer prompts": (0, lengths > middle)}).items():
        old, new = (Ratio(*run.counts[:n, i][chosen].T) for run in (reference, now))
        counted = old.numerators.any() and min(clusters(old.denominators), clusters(new.denominators)) > 1
        if counted or name == "all prompts":
            found[name] = old, new
    return found
