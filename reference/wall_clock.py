"""Times all decoders and transformers' own, on the same models, prompts and machine, in random order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from reference import hugging_face
from reference.decode import Decoder, Generation
from reference.divergence import first_divergence
from reference.drafters import SuffixArray, Variant, drafters, planned_variant
from reference.drafters.kind import best_chain
from reference.heads import Head
from reference.measuring import count_fourgrams, processor, require_cycle
from reference.meter import Meter
from reference.models import Pair
from reference.part_files import check_same, short_hash
from reference.prompts import training_texts
from reference.random_streams import streams
from reference.sampling import Sampling, require_drawing
from spectheory import DrawRule, Provenance, Schedule
from spectheory.core.errors import InputError
from spectheory.otlp import NSS, Naive
from spectheory.results.wall_clock import SAME, WallClock
from spectheory.verify import TopDown, verifier_of

WARM_UP_TOKENS = 32


@dataclass(frozen=True)
class Entrant:
    """A decoder whose time is measured.

    `decode` takes a prompt, the number of tokens to generate, and the index of the request.
    """

    name: str
    family: str
    settings: str
    decode: Callable[[list[int], int, int], Generation]
    plan: Schedule | None = None


@dataclass(frozen=True)
class ClockSettings:
    """Settings of `spectheory clock`.

    Attributes:
        new_tokens: number of tokens of each text, at least 2; stop tokens are ignored.
        temperature: temperature of all decoders.
        rounds: how often each decoder decodes each prompt; the time in the middle counts.
        seed: seed of all random streams and of the order.
        top_k: top-k of all decoders, see `Sampling`.
        top_p: top-p of all decoders.
    """

    new_tokens: int = 128
    temperature: float = 0.0
    rounds: int = 3
    seed: int = 0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        require_cycle(self.new_tokens)
        if self.rounds < 1:
            raise InputError(f"rounds must be at least 1, got {self.rounds}")
        require_drawing(self.sampling)

    @property
    def sampling(self) -> Sampling:
        """How the texts are sampled."""
        return Sampling(self.temperature, self.top_k, self.top_p)


def library(pair: Pair) -> SuffixArray:
    """The corpus of the datastore drafter: the files that the shipped pair was trained on."""
    return SuffixArray.build(training_texts(pair))


def entrants(pair: Pair, plans: Sequence[Schedule], settings: ClockSettings, corpus: SuffixArray) -> list[Entrant]:
    """The decoders to time: those of transformers, then every drafter with the settings of its `DrafterKind.clock`.

    Assisted generation of transformers needs a draft model, and is left out if the draft is a head.

    Args:
        pair: target and draft.
        plans: the plan that decides the length of chains, the tree, and the size of dynamic trees, then other plans
            that are timed in addition to it, as `rivals` returns them.
        settings: sampling and seed.
        corpus: corpus of the datastore drafter.
    """
    sampling, plan = settings.sampling, plans[0]
    chain = best_chain(plan)

    def theirs(name: str, **options: int) -> Entrant:
        def decode(prompt: list[int], new_tokens: int, request: int) -> Generation:
            seed = int(np.random.SeedSequence([settings.seed, request]).generate_state(1)[0])
            return hugging_face.generate(pair, prompt, new_tokens, sampling, **options, seed=seed)

        return Entrant(name, "HF", str(options), decode)

    ours = [variant for kind in drafters() for variant in kind.clock(plan, corpus)]
    families = list(dict.fromkeys(variant.family for variant in ours))
    timed = {(variant.plan.tree, variant.plan.verifier) for variant in ours if variant.plan}
    for rival, chosen in zip(plans[1:], (" by rates", *[""] * len(plans)), strict=False):
        if rival.tree.budget and (rival.tree, rival.verifier) not in timed:
            ours.append(planned_variant(rival, chosen))
    ours.sort(key=lambda variant: families.index(variant.family) if variant.family in families else len(families))
    assisted = [] if isinstance(pair.draft, Head) else [theirs(f"HF assisted, {chain}", chain=chain)]
    return [
        theirs("HF plain"),
        *assisted,
        theirs("HF prompt lookup", lookup=hugging_face.LOOKUP_TOKENS),
        *(_entrant(pair, sampling, settings.seed, variant) for variant in ours),
    ]


def _entrant(pair: Pair, sampling: Sampling, seed: int, variant: Variant) -> Entrant:
    """The decoder of a drafter. It verifies with the verifier that the plan chose for it; without one, by sample and
    match if nothing is drawn, else by the naive solver.
    """
    drafter = variant.drafter
    named = variant.plan.verifier if variant.plan and not sampling.greedy else None
    usual = TopDown(NSS() if drafter.rule(sampling) is DrawRule.TOP_K else Naive())
    decoder = Decoder(pair, drafter, sampling, verifier_of(named) if named else usual)

    def decode(prompt: list[int], new_tokens: int, request: int) -> Generation:
        return decoder.generate(prompt, new_tokens, *streams(pair, seed, request))

    return Entrant(variant.name, variant.family, f"{drafter} {decoder.verifier}", decode, variant.plan)


def stamp(
    pair: Pair, prompts: list[list[int]], plans: Sequence[Schedule], running: list[Entrant], settings: ClockSettings
) -> Provenance:
    """The provenance of a wall clock, with everything that affects speed."""
    return Provenance.now(
        "spectheory clock",
        packages=("torch", "transformers", "numpy"),
        seed=settings.seed,
        **settings.sampling.stamp,
        **pair.stamp,
        settings={
            "new_tokens": settings.new_tokens,
            "rounds": settings.rounds,
            "weights": pair.fingerprint,
            "prompts": short_hash(prompts),
            "plans": short_hash([plan.to_dict() for plan in plans]),
            "decoders": short_hash([[entrant.name, entrant.settings] for entrant in running]),
            **processor(),
        },
    )


def clock(
    pair: Pair,
    prompts: list[list[int]],
    plans: Sequence[Schedule],
    running: list[Entrant],
    settings: ClockSettings,
    so_far: WallClock | None = None,
    done: Callable[[int, int], None] = lambda finished, total: None,
) -> Iterator[WallClock]:
    """Decode every prompt that is not in `so_far` with the decoders `running`; yields the record after each prompt.

    `so_far` is the record of an interrupted call. `plans` are the plans that `entrants` was called with. `done` is
    called with the number of texts that this call has decoded, and of all that it decodes.

    Raises:
        InputError: there are no prompts, they do not fit the context with their texts, or `so_far` has other models,
            prompts, settings, versions or machine.
    """
    if not prompts:
        raise InputError("need at least one prompt to clock, got none")
    if (need := max(map(len, prompts)) + settings.new_tokens) > pair.context:
        raise InputError(
            f"prompts and new tokens need a context of {need}, these models have {pair.context}: shorten one of them"
        )
    here = stamp(pair, prompts, plans, running, settings)
    names, families, planned = (tuple(getattr(e, name) for e in running) for name in ("name", "family", "plan"))
    record = so_far or WallClock.empty(names, families, planned, plans[0], tuple(plans[1:]), here)
    check_same(record.provenance, here)
    if record.prompts < len(prompts):
        for entrant in running:
            entrant.decode(prompts[-1], min(settings.new_tokens, WARM_UP_TOKENS), len(prompts))
    texts = settings.rounds * len(running)
    total, counted = texts * (len(prompts) - record.prompts), count(1)
    for request in range(record.prompts, len(prompts)):
        row = _row(pair, prompts[request], request, running, settings, lambda: done(next(counted), total))
        record = record.with_prompt(**row)
        yield record


@dataclass(frozen=True)
class _Run:
    """One text by one decoder: its seconds, and the seconds in forwards of the target and of the draft."""

    text: Generation
    seconds: float
    forwards: tuple[float, float]


def _row(
    pair: Pair,
    prompt: list[int],
    request: int,
    running: Sequence[Entrant],
    settings: ClockSettings,
    tell: Callable[[], None],
) -> dict[str, list[float]]:
    """Decode one prompt with every decoder; the columns of the record from each decoder's run of median time.

    `tell` is called after each text.
    """
    runs: list[list[_Run]] = [[] for _ in running]
    for turn in range(settings.rounds):
        for number in np.random.default_rng([settings.seed, request, turn]).permutation(len(running)):
            with Meter(pair) as meter:
                started = time.perf_counter()
                text = running[number].decode(prompt, settings.new_tokens, request)
                seconds = time.perf_counter() - started
            runs[number].append(_Run(text, seconds, meter.since(text.started)))
            tell()
    middle = [sorted(several, key=lambda run: run.seconds)[len(several) // 2] for several in runs]
    columns = [_columns(pair, prompt, run, middle[0].text.tokens, settings.sampling.greedy) for run in middle]
    return {name: [column[name] for column in columns] for name in columns[0]}


def _columns(pair: Pair, prompt: list[int], run: _Run, baseline: list[int], greedy: bool) -> dict[str, float]:
    text = run.text
    where = first_divergence(pair, prompt, baseline, text.tokens) if greedy else None
    fourgrams, repeated = count_fourgrams(text.tokens)
    return {
        "tokens": len(text.tokens),
        "seconds": run.seconds,
        "decode_seconds": text.seconds,
        "target_seconds": run.forwards[0],
        "draft_seconds": run.forwards[1],
        "cycles": len(text.accepted),
        "emitted": sum(text.accepted) + len(text.accepted),
        "fourgrams": fourgrams,
        "repeated_fourgrams": repeated,
        "first_difference": SAME if where is None else where.position,
        "margin": 0.0 if where is None else where.margin,
    }
