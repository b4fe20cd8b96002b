"""`compare`: every drafter with every lossless verifier, and transformers' own decoding, on the same prompts.

Tau is predicted on other prompts, by replay of their texts, or by decoding for drafters that no text determines. Then
it is measured, with the tokens a second, in random order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from reference import hugging_face
from reference.decode import Decoder, Generation
from reference.drafters import Drafter, PlannedTree, PromptLookup, drafters, incompatibility
from reference.heads import Head
from reference.measuring import processor, require_cycle
from reference.models import NoDraftError, Pair
from reference.part_files import check_same, only_writer, short_hash
from reference.planning_loop import DATASET, TRACE, measured_plan
from reference.random_streams import streams
from reference.replaying import replay_drafter
from reference.sampling import Sampling
from reference.token_checks import check_context
from reference.tracing import TraceSettings, read_trace, record_trace
from spectheory import Provenance, Replays, Schedule, Tree
from spectheory.core.errors import InputError
from spectheory.core.files import read_text, write_whole
from spectheory.core.ratios import check_sources, clusters
from spectheory.core.record import parse
from spectheory.otlp import solvers
from spectheory.replay import Replayed
from spectheory.results.comparison import COLUMNS, Compared, Comparison
from spectheory.verify import Greedy, TopDown, Verifier, name_of, verifiers

RECORD = "comparison.json"
"""Name of the record in the folder of a comparison."""
WARM_UP_TOKENS, ASSISTED_CHAIN, DECODED = 32, 5, 12
"""Tokens of a warm-up, those that transformers' own chain has, and prompts decoded where replay cannot follow."""
Traced = tuple[list[list[int]], list[list[int]], tuple[str, ...]]
Progress = Callable[[int, int], None]
PLAIN, DATASTORE = "plain", "datastore"
"""Names of plain decoding in this loop, with which greedy texts are compared, and of prompt lookup in traced texts."""


@dataclass(frozen=True)
class CompareSettings:
    """Settings of `compare`.

    Attributes:
        temperatures: temperatures at which each decoder runs; 0 is greedy decoding.
        new_tokens: maximum number of tokens of each text, at least 2.
        rounds: how often each decoder decodes each prompt; the median time counts.
        seed: seed of all random streams and of the order of the decoders.
        only: decode only, beside plain decoding, decoders whose name contains this text, or one of these texts if
            they are separated by |.
    """

    temperatures: tuple[float, ...] = (0.0, 1.0)
    new_tokens: int = 64
    rounds: int = 1
    seed: int = 0
    only: str = ""

    def __post_init__(self) -> None:
        require_cycle(self.new_tokens)
        for temperature in self.temperatures:
            Sampling(temperature)
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, got {self.rounds}")
        if not self.temperatures or len(set(self.temperatures)) < len(self.temperatures):
            raise InputError(f"temperatures must be different numbers, at least one, got {self.temperatures}")

    def takes(self, name: str) -> bool:
        """Whether `only` asks for a decoder of this name."""
        return any(text.strip() in name.lower() for text in self.only.lower().split("|"))


@dataclass(frozen=True)
class Entrant:
    """A decoder that is compared. `decode` takes a prompt, the number of tokens, and the number of the prompt.

    Transformers' own decoding has neither `drafter` nor `verifier`.
    """

    name: str
    sampling: Sampling
    decode: Callable[[list[int], int, int], Generation]
    drafter: Drafter | None = None
    verifier: Verifier | None = None

    def __str__(self) -> str:
        return self.name if self.verifier is None else f"{self.name}, {name_of(self.verifier)}"


def entrants(
    pair: Pair, plan: Schedule | None, sampling: Sampling, seed: int = 0, texts: Sequence[list[int]] = ()
) -> list[Entrant]:
    """The decoders to compare: those of transformers, plain decoding, every drafter with every lossless verifier.

    Assisted generation of transformers needs a draft model, and is left out if the draft is a head. For a target alone,
    for which there is no plan, drafters that need a draft are left out. The datastore holds `texts`.
    """
    alone = pair.draft is None
    theirs = {"HF plain": {}, "HF prompt lookup": {"lookup": hugging_face.LOOKUP_TOKENS}}
    if not alone and not isinstance(pair.draft, Head):
        theirs[f"HF assisted, {ASSISTED_CHAIN}"] = {"chain": ASSISTED_CHAIN}
    found = [_theirs(pair, name, options, sampling, seed) for name, options in theirs.items()]
    plain = PlannedTree(Tree.chain(0))
    found.append(_ours(pair, PLAIN, plain, lossless(plain, sampling)[0], sampling, seed))
    every = [item for kind in drafters() for item in kind.compared(sampling, plan).items()]
    for name, drafter in [(DATASTORE, PromptLookup(corpus=tuple(map(tuple, texts)))), *every]:
        with suppress(NoDraftError):
            if alone:
                drafter.start(pair, sampling)
            found += [_ours(pair, name, drafter, verifier, sampling, seed) for verifier in lossless(drafter, sampling)]
    return found


def lossless(drafter: Drafter, sampling: Sampling) -> list[Verifier]:
    """The verifiers that are lossless for a drafter, without those that only suit small vocabularies."""
    every = [*(TopDown(one) for one in solvers() if not one.small_vocabulary_only), *verifiers()]
    return [Greedy()] if sampling.greedy else [one for one in every if incompatibility(drafter, one, sampling) is None]


def _theirs(pair: Pair, name: str, options: dict[str, int], sampling: Sampling, seed: int) -> Entrant:
    def decode(prompt: list[int], new_tokens: int, request: int) -> Generation:
        own = int(np.random.SeedSequence([seed, request]).generate_state(1)[0])
        return hugging_face.generate(pair, prompt, new_tokens, sampling, **options, seed=own)

    return Entrant(name, sampling, decode)


def _ours(pair: Pair, name: str, drafter: Drafter, verifier: Verifier, sampling: Sampling, seed: int) -> Entrant:
    decoder = Decoder(pair, drafter, sampling, verifier)

    def decode(prompt: list[int], new_tokens: int, request: int) -> Generation:
        return decoder.generate(prompt, new_tokens, *streams(pair, seed, request))

    return Entrant(name, sampling, decode, drafter, verifier)


def _predicted(
    one: Entrant, pair: Pair, plan: Schedule | None, texts: Replays | None, traced: Traced, new_tokens: int
) -> Compared:
    """A decoder with its predictions, from the plan of its sampling and the traced prompts, their texts and sources."""
    drafter, verifier = one.drafter, one.verifier
    if drafter is None or verifier is None or one.name == DATASTORE:  # its texts are those of the prediction
        return Compared(one.name, None if verifier is None else name_of(verifier), one.sampling.temperature)
    known, shape, speed = Compared(one.name, name_of(verifier), one.sampling.temperature), drafter.shape, None
    if isinstance(shape, Tree) and not shape.budget:
        return replace(known, tau=1.0, tau_low=1.0, tau_high=1.0, speed=1 / plan.plain_seconds if plan else None)
    try:
        if shape is None:
            try:
                found = replay_drafter(pair, drafter, *traced[:2], one.sampling)
            except InputError:  # the text does not determine its cycles
                found, speed = _decoded(one, traced[0][:DECODED], new_tokens)
            found = found.by_source(traced[2][: len(found.cycles)])
        elif texts is None:
            return known
        else:
            found = texts.replay(shape, verifier, None if one.sampling.greedy else drafter.rule(one.sampling))
    except InputError:  # replay cannot follow it, or the texts are too short for it
        return known
    low, high = found.tau_interval() if clusters(found.cycles) > 1 else (None, None)
    if plan and isinstance(shape, Tree):
        speed = plan.latency.speedup(shape, found.tau, plan.context, known.verifier) / plan.plain_seconds
    return replace(known, tau=found.tau, tau_low=low, tau_high=high, speed=speed)


def _decoded(one: Entrant, prompts: list[list[int]], new_tokens: int) -> tuple[Replayed, float]:
    """The cycles of a decoder on prompts, and its tokens a second, the median over these."""
    texts = [one.decode(prompt, new_tokens, number) for number, prompt in enumerate(prompts)]
    cycles, kept = np.array([[len(text.accepted), sum(text.accepted)] for text in texts]).T
    accepted = np.bincount([length for text in texts for length in text.accepted])
    speed = float(np.median([(len(text.tokens) - 1) / text.seconds for text in texts]))
    return Replayed(cycles + kept, cycles, 0 * cycles, accepted), speed


def _predictions(file: Path, predict: Sequence[Callable[[], Compared]], done: Progress) -> tuple[Compared, ...]:
    """What is predicted for each decoder. The file keeps it, so that an interrupted comparison does not begin anew."""
    known = [Compared(**one) for one in parse(read_text(file), str(file))] if file.exists() else []
    for one in predict[len(known) :]:
        done(len(known), len(predict))
        known.append(one())
        write_whole(file, json.dumps([asdict(each) for each in known], indent=1))
    return tuple(known)


def compare(
    folder: Path,
    pair: Pair,
    traced: list[list[int]],
    prompts: list[list[int]],
    settings: CompareSettings,
    *,
    sources: tuple[str, ...] = (),
    done: Progress = lambda finished, total: None,
) -> Comparison:
    """Compare decoders on `prompts`, and predict their tau from texts after the prompts `traced`.

    Traces, measured forwards, predictions and the record are kept in `folder`, which is empty or holds the same
    comparison: an interrupted one continues after its last whole prompt. `sources` say where each prompt is from, those
    to trace first; prompts of one source are one cluster of the intervals. `done` is called with the number of decoders
    that are predicted, then with that of texts that this call has decoded, and with how many there are in all.

    Raises:
        InputError: prompts or some of their sources are missing, prompts do not fit the context with their texts, no
            decoder has the wanted name, or the folder holds a comparison with other models, prompts, settings, versions
            or machine.
    """
    if not traced or not prompts:
        raise InputError(f"need prompts to trace and to decode, got {len(traced)} and {len(prompts)}")
    check_sources(sources, len(traced) + len(prompts))
    check_context(pair, prompts, settings.new_tokens)
    file = folder / RECORD
    with only_writer(folder):
        running = list(_running(folder, pair, traced, settings, sources[: len(traced)]))
        every = [one for one, _ in running]
        here = Provenance.now(
            "spectheory compare",
            packages=("torch", "transformers", "numpy"),
            seed=settings.seed,
            **pair.stamp,
            settings={
                "new_tokens": settings.new_tokens,
                "rounds": settings.rounds,
                "weights": pair.fingerprint,
                "prompts": short_hash([traced, prompts]),
                **({"clusters": short_hash(sources)} if sources else {}),
                "decoders": short_hash([f"{one} {one.sampling} {one.drafter}" for one in every]),
                **processor(),
            },
        )
        record = Comparison.load(file) if file.exists() else None
        if record is not None:
            check_same(record.provenance, here)
        first = 0 if record is None else len(record.cycles)
        kept = folder / f"predicted-{short_hash([here.identity, here.machine])}.json"
        decoders = record.decoders if record else _predictions(kept, [predict for _, predict in running], done)
        for one in every if first < len(prompts) else ():
            one.decode(prompts[-1], min(settings.new_tokens, WARM_UP_TOKENS), len(prompts))
        total, counted = settings.rounds * len(every) * (len(prompts) - first), count(1)
        for request in range(first, len(prompts)):
            row = _row(prompts[request], request, every, settings, lambda: done(next(counted), total))
            rows = {name: np.array([*(getattr(record, name) if record else ()), row[name]]) for name in COLUMNS}
            known = sources[len(traced) :][: request + 1] or None
            record = Comparison(decoders, **rows, sources=known, provenance=record.provenance if record else here)
            record.save(file)
    assert record is not None
    return record


def _running(
    folder: Path, pair: Pair, traced: list[list[int]], settings: CompareSettings, sources: tuple[str, ...]
) -> Iterator[tuple[Entrant, Callable[[], Compared]]]:
    latency, names = None, []
    for temperature in settings.temperatures:
        sampling, kept = Sampling(temperature), folder / f"temperature-{temperature:g}"
        drawing = {"new_tokens": settings.new_tokens, "temperature": temperature, "seed": settings.seed}
        plan = texts = None
        if pair.draft is None:
            record_trace(pair, traced, TraceSettings(DATASET, **drawing), kept / TRACE, sources=sources)
        else:
            plan, texts = measured_plan(pair, traced, kept, **drawing, latency=latency, sources=sources)
            latency = plan.latency
        tokens = [row["text"] for row in read_trace(kept / TRACE)]
        for one in entrants(pair, plan, sampling, settings.seed, tokens):
            names.append(str(one))
            if settings.takes(str(one)) or one.name == PLAIN:
                yield one, partial(_predicted, one, pair, plan, texts, (traced, tokens, sources), settings.new_tokens)
    if not any(map(settings.takes, names)):
        raise InputError(f"no decoder's name contains {settings.only!r:.80}: a valid name is {names[-1]!r}")


def _row(
    prompt: list[int], request: int, running: Sequence[Entrant], settings: CompareSettings, tell: Callable[[], None]
) -> dict[str, list[Any]]:
    """Decode one prompt with every decoder in random order; the columns of the record from runs of median time."""
    runs: list[list[Generation]] = [[] for _ in running]
    for turn in range(settings.rounds):
        for number in np.random.default_rng([settings.seed, request, turn]).permutation(len(running)):
            runs[number].append(running[number].decode(prompt, settings.new_tokens, request))
            tell()
    middle = [sorted(several, key=lambda text: text.seconds)[len(several) // 2] for several in runs]
    plain = {one.sampling: text.tokens for one, text in zip(running, middle, strict=True) if one.name == PLAIN}
    return {
        "emitted": [sum(text.accepted) + len(text.accepted) for text in middle],
        "cycles": [len(text.accepted) for text in middle],
        "tokens": [len(text.tokens) - 1 for text in middle],
        "seconds": [text.seconds for text in middle],
        "equal": [
            int(not one.sampling.greedy or text.tokens == plain[one.sampling])
            for one, text in zip(running, middle, strict=True)
        ],
    }
