"""From a trace to a plan that knows its verifier: replay against the decoder itself, records and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spectheory as st
from reference.decode import Decoder
from reference.drafters import Drafter, Goose, Lookahead, PlannedTree, SuffixArray, TokenRecycling, drafters
from reference.models import Pair
from reference.random_streams import streams
from reference.replaying import OffTextError, replay_drafter, replays, traced_replays
from reference.sampling import Sampling
from reference.teacher_forcing import forced_texts
from reference.tracing import PROMPTS, TraceSettings, acceptance, record_trace
from spectheory.core.errors import InputError
from spectheory.otlp import RRS, Naive
from spectheory.planning.assumptions import PRODUCT
from spectheory.planning.planner import evaluate
from spectheory.planning.planner import plan as search
from spectheory.planning.replayed_options import planned_verifiers
from spectheory.planning.scheduler import schedule_of
from spectheory.replay import ChainText, GreedyText, Replayed, Replays
from spectheory.results.comparison import mismatches
from spectheory.verify import Block, Greedy, TopDown, Traversal, Verifier, name_of, verifier_of
from tests.command_line import Run
from tests.replay.test_replays import random_text

RULES = {True: st.DrawRule.IID, False: st.DrawRule.NO_REPLACEMENT}
TREE = st.Tree.k_ary(2, 2)
RATES = st.Acceptance.by_rank([0.5, 0.2, 0.1])
LATENCY = st.Latency.constant(draft_seconds=0.02)
TEXTS = [random_text(seed, n=40, depths=1) for seed in range(6)]


def prompts(count: int, length: int = 6) -> list[list[int]]:
    return np.random.default_rng(3).integers(0, 300, (count, length)).tolist()


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["greedy", "sampled"])
def trace(request: pytest.FixtureRequest, tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    record_trace(tiny, prompts(6), TraceSettings("random", temperature=request.param, new_tokens=40), folder)
    return folder


@pytest.mark.parametrize(
    ("tree", "verifier"),
    [(st.Tree.chain(3), Block()), (TREE, TopDown(RRS())), (TREE, TopDown(Naive())), (TREE, Traversal())],
    ids=str,
)
@pytest.mark.parametrize(
    "sampling", [Sampling(1.0), Sampling(0.6, top_p=0.9), Sampling(1.0, top_k=5)], ids=["1", "top-p", "top-k"]
)
def test_the_decoder_starts_as_many_cycles_as_replay_expects_on_its_texts(
    tiny: Pair, tree: st.Tree, verifier: Verifier, sampling: Sampling
) -> None:
    """|z| <= 4.5 over 12 texts: an error level of 7e-6 for each of 12 rows, by the normal approximation.

    The expected number is the mean of 16 draws of the siblings; its own variance counts too.
    """
    texts, counted = [], []
    for request, prompt in enumerate(prompts(12)):
        text = Decoder(tiny, PlannedTree(tree), sampling, verifier).generate(prompt, 30, *streams(tiny, 1, request))
        starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
        counted.append((starts < 30 - tree.max_depth).sum())
        texts.append(text.tokens)
    forced = list(forced_texts(tiny, prompts(12), texts, sampling))
    drawn = [Replays(forced, seed=seed).replay(tree, verifier, RULES[tree.is_chain]) for seed in range(16)]
    expected = np.array([one.cycles.sum() for one in drawn])
    variance = np.mean([one.variance.sum() for one in drawn]) + expected.var(ddof=1) / len(drawn)
    assert abs(np.sum(counted) - expected.mean()) <= 4.5 * np.sqrt(variance)


def test_greedy_cycles_are_those_of_the_decoder(tiny: Pair, tmp_path: Path) -> None:
    """Equal, text by text."""
    record_trace(tiny, prompts(4), TraceSettings("random", new_tokens=40), tmp_path)
    replayed = replays(tmp_path).replay(TREE, Greedy())
    for request, prompt in enumerate(prompts(4)):
        text = Decoder(tiny, PlannedTree(TREE), verifier=Greedy()).generate(prompt, 40)
        starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
        whole = starts < 40 - TREE.max_depth
        assert replayed.cycles[request] == whole.sum()
        assert replayed.emitted[request] == (np.array(text.accepted) + 1)[whole].sum()


def test_a_plan_of_a_trace_names_the_verifier_that_decodes(tiny: Pair, trace: Path, tmp_path: Path) -> None:
    texts = replays(trace, tiny)
    chosen = search(acceptance(trace, min_trials=1).smoothed(), LATENCY, max_budget=8, replays=texts)
    assert chosen.verifier is not None
    assert chosen.rule is not None
    verifier, rule = verifier_of(chosen.verifier), st.DrawRule[chosen.rule]
    assert chosen.block_efficiency == texts.replay(chosen.tree, verifier, rule).tau
    for other in (TopDown(Naive()), TopDown(RRS()), Traversal(), Greedy()):
        if texts.greedy == isinstance(other, Greedy):
            assert (
                evaluate(chosen.tree, RATES, LATENCY, replays=texts).speedup
                >= evaluate(chosen.tree, RATES, LATENCY, replays=texts, verifier=name_of(other)).speedup
            )
    chosen.save(tmp_path / "plan.json")
    loaded = st.load(tmp_path / "plan.json")
    assert isinstance(loaded, st.Plan)
    assert (loaded.verifier, loaded.rule, loaded.speedup) == (chosen.verifier, chosen.rule, chosen.speedup)
    assert f"with {chosen.verifier}" in loaded.summary


def test_the_command_plans_by_replay(run: Run, trace: Path, tmp_path: Path, tiny_folders: Path) -> None:
    rates, times, out = tmp_path / "rates.json", tmp_path / "times.json", tmp_path / "plan.json"
    acceptance(trace, min_trials=1).save(rates)
    LATENCY.save(times)
    result = run("plan", "--acceptance", rates, "--latency", times, "--trace", trace, "--smooth", "--out", out)
    assert result.exit_code == 0, result.output
    plan = st.Plan.load(out)
    assert plan.verifier is not None
    assert plan.verifier in result.stdout
    told = "--tree", out, "--verifier", plan.verifier
    again = run("plan", "--acceptance", rates, "--latency", times, "--trace", trace, "--smooth", *told, "--json")
    assert again.exit_code == 0, again.output
    assert f'"block_efficiency": {plan.block_efficiency!r}' in again.stdout


def test_only_a_prediction_from_rates_assumes_a_product_of_rates() -> None:
    assert PRODUCT in evaluate(TREE, RATES, LATENCY).provenance.assumptions
    assert PRODUCT not in OWN.provenance.assumptions
    assert PRODUCT not in evaluate(st.Tree.chain(0), RATES, LATENCY).provenance.assumptions


def test_a_verifier_that_costs_more_than_it_gains_is_not_chosen() -> None:
    texts = Replays(TEXTS)
    free = evaluate(TREE, RATES, LATENCY, replays=texts)
    assert free.verifier is not None
    slow = replace(LATENCY, verifier_seconds={free.verifier: (100.0, 0.0, 0.0)})
    other = evaluate(TREE, RATES, slow, replays=texts)
    assert other.verifier != free.verifier
    assert other.block_efficiency <= free.block_efficiency
    assert evaluate(TREE, RATES, slow, replays=texts, verifier=free.verifier).overhead_seconds == 100


def test_nothing_is_drafted_where_no_replayed_tree_pays() -> None:
    slow = st.Latency.constant(draft_seconds=10)
    off = search(RATES, slow, max_budget=4, replays=Replays(TEXTS))
    assert (off.answer, off.verifier, off.replayed) == ("off", None, None)


def test_the_local_search_finds_a_shape_that_rates_by_depth_cannot_see() -> None:
    """A rank-1 token is always followed by rank 0 and then by a miss; a rank-0 token by a miss or by rank 1."""
    ranks = np.array([1, 0, -1, 0, -1] * 60)
    texts = Replays([GreedyText(np.roll(ranks, shift)) for shift in range(5)], first=0)
    rates = st.Acceptance.by_rank([0.4, 0.2])
    chosen = search(rates, st.Latency.constant(draft_seconds=0.01), max_budget=3, replays=texts)
    best = max(
        (st.Tree([-1, *parents]) for parents in ([0, 0, 1], [0, 0, 2], [0, 1, 1], [0, 1, 2], [0, 0], [0, 1], [0])),
        key=lambda tree: evaluate(tree, rates, st.Latency.constant(draft_seconds=0.01), replays=texts).speedup,
    )
    assert chosen.tree == best


def replayed(**changes: Any) -> Replayed:
    given = {"emitted": [3.0, 2.0], "cycles": [2.0, 1.0], "variance": [0.1, 0.0], "accepted": [1.0, 2.0]} | changes
    return Replayed(**{name: np.array(values) for name, values in given.items()})


OWN = evaluate(TREE, RATES, LATENCY, replays=Replays(TEXTS))
REFUSED: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    (lambda: replayed(emitted=[3.0]), ("one entry for each text", "1, 2, 2")),
    (lambda: replayed(cycles=[np.nan, 1]), ("cycles", "finite")),
    (lambda: replayed(accepted=[2.0, 2.0]), ("the sum of cycles must be 4", "got 3")),
    (lambda: replayed(emitted=[3.0, 4.0]), ("the sum of emitted must be 5", "got 7")),
    (lambda: replayed(emitted=[0.0], cycles=[0.0], variance=[0.0], accepted=[0.0]), ("at least one cycle",)),
    (lambda: replace(OWN, verifier=None), ("verifier, rule and replayed", "together")),
    (lambda: replace(OWN, verifier="Traversal", rule="TOP_K"), ("rule", "Traversal", "TOP_K")),
    (lambda: replace(OWN, verifier="Block", rule="NO_REPLACEMENT"), ("must verify trees", "Block")),
    (lambda: replace(OWN, verifier="Greedy", rule="IID"), ("rule", "Greedy, TOP_K", "IID")),
    (lambda: replayed(emitted=[-1.0, 0.0], cycles=[0.5, 0.5], accepted=[3.0, -2.0]), ("tau", "between 1 and 2")),
    (lambda: replace(OWN, verifier="Nobody"), ("verifier", "'Nobody'")),
    (lambda: replace(OWN, replayed=replayed()), ("replayed", "2 deep, got 1")),
    (lambda: evaluate(TREE, RATES, LATENCY, verifier="Traversal"), ("verifier 'Traversal'", "replays")),
    (lambda: evaluate(TREE, RATES, LATENCY, replays=Replays(TEXTS), verifier="Block"), ("verifier", "'Block'")),
    (lambda: replace(LATENCY, verifier_seconds={"RRS": (1.0, -1.0, 0.0)}), ("verifier_seconds['RRS']", "-1.0")),
    (lambda: verifier_of("traversal"), ("verifier", "Traversal", "'traversal'")),
]


@pytest.mark.parametrize(("call", "named"), REFUSED)
def test_contradictions_are_refused(call: Callable[[], Any], named: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert all(word in str(error.value) for word in named), error.value


def test_a_trace_of_another_pair_or_without_prompts_is_refused(trace: Path, tiny: Pair, tmp_path: Path) -> None:
    if replays(trace, tiny).greedy:
        return
    other = replace(tiny, target=tiny.draft)
    with pytest.raises(InputError, match=r"pair has weights .*, the trace in .* was recorded with"):
        replays(trace, other)
    with pytest.raises(InputError, match="pair must be given to replay a trace at temperature 1.0, got None"):
        replays(trace)
    held = (trace / PROMPTS).read_text()
    (trace / PROMPTS).unlink()
    try:
        with pytest.raises(InputError, match=r"lacks prompts.json, .*: record the trace again"):
            replays(trace, tiny)
    finally:
        (trace / PROMPTS).write_text(held)


def test_the_pair_is_loaded_as_it_was_recorded(trace: Path, tiny: Pair) -> None:
    texts, temperature = traced_replays(trace)
    verifier = TopDown(Naive()) if temperature else Greedy()
    assert texts.replay(TREE, verifier, RULES[False] if temperature else None).tau == pytest.approx(
        replays(trace, tiny).replay(TREE, verifier, RULES[False] if temperature else None).tau, rel=1e-6
    )


DYNAMIC = [
    variant.drafter
    for kind in drafters()
    for variant in kind.matrix(Sampling(), TREE, SuffixArray.build([[*range(60), *range(30)]]))
    if variant.drafter.rule(Sampling()) is st.DrawRule.TOP_K
]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("drafter", DYNAMIC, ids=lambda drafter: type(drafter).__name__)
def test_a_drafter_that_draws_nothing_makes_the_cycles_of_the_decoder(
    tiny: Pair, drafter: Drafter, sampling: Sampling
) -> None:
    """Equal, whatever the temperature: sample and match keeps the longest match of the tree with the text."""
    if drafter.rule(sampling) is not st.DrawRule.TOP_K:
        return
    prompt = prompts(1, 12)[0]
    text = Decoder(tiny, drafter, sampling).generate(prompt, 40, *streams(tiny, 1))
    starts = 1 + np.concatenate([[0], np.cumsum(np.array(text.accepted) + 1)[:-1]])
    try:
        replayed = replay_drafter(tiny, drafter, [prompt], [text.tokens], sampling)
    except OffTextError:
        assert isinstance(drafter, TokenRecycling | Lookahead | Goose)
        return
    whole = starts + len(replayed.accepted) - 1 < len(text.tokens)
    assert (
        replayed.accepted.tolist()
        == np.bincount(np.array(text.accepted)[whole], minlength=len(replayed.accepted)).tolist()
    )


def test_a_drafter_that_draws_is_replayed_by_its_shape(tiny: Pair) -> None:
    with pytest.raises(InputError, match="draws by NO_REPLACEMENT: replay its shape with Replays"):
        replay_drafter(tiny, PlannedTree(TREE), prompts(1), [[1, 2]], Sampling(1.0))
    with pytest.raises(InputError, match="must be longer than a cycle of depth 2, the longest has 2 tokens"):
        replay_drafter(tiny, PlannedTree(TREE), prompts(1), [[1, 2]], Sampling())


def test_a_comparison_uses_what_was_replayed_and_says_which_verifier_differs() -> None:
    theory = st.compare(OWN, None, None).theory
    assert OWN.replayed is not None
    assert theory.tau == OWN.replayed.tau
    assert theory.accepted @ np.arange(1, TREE.max_depth + 2) == pytest.approx(theory.tau)
    assert OWN.verifier is not None
    same, other = str(verifier_of(OWN.verifier)), "TopDown(solver=NSS())"
    assert mismatches(OWN, st.Provenance("decoding", verifier=same)) == []
    assert mismatches(OWN, st.Provenance("decoding", verifier=other)) == [
        f"the plan was made for the verifier {same}, while decoding uses {other}"
    ]


def at(batch: int) -> st.Latency:
    """Verification costs more with every sequence, so that speculation stops to pay."""
    seconds = np.array([[1.0, 1.0 + 0.05 * batch * 15]])
    return st.Latency(
        np.array([1, 16]), np.array([64]), seconds, seconds * 0.02, verifier_seconds={"RRS": (0.2, 0.0, 0.0)}
    )


def test_a_schedule_names_a_verifier_at_each_batch_size(tmp_path: Path) -> None:
    texts = Replays(TEXTS)
    made = st.schedule(RATES, at, [1, 4, 64], context=64, max_budget=6, replays=texts)
    made.save(tmp_path / "schedule.json")
    loaded = st.Schedule.load(tmp_path / "schedule.json")
    assert (loaded.verifiers, loaded.rules) == (made.verifiers, made.rules)
    assert made.answer(2) == "off"
    for row, batch in enumerate((1, 4)):
        number = made.choice[row]
        tree, verifier, rule = made.trees[number], made.verifiers[number], made.rules[number]
        assert verifier is not None
        assert rule is not None
        tau = texts.replay(tree, verifier_of(verifier), st.DrawRule[rule]).tau
        assert made.block_efficiency[number] == tau
        assert made.speedup[row] == pytest.approx(tau * at(batch).plain(64) / at(batch).cycle(tree, 64, verifier))
        assert made.speedup[row] >= made.chain_speedup[row]
        for other, how in planned_verifiers(texts, tree):
            replayed = texts.replay(tree, other, how).tau
            assert replayed / at(batch).cycle(tree, 64, name_of(other)) <= tau / at(batch).cycle(tree, 64, verifier)
    with pytest.raises(InputError, match=r"verifiers, rules and replayed must have an entry for each of the \d trees"):
        replace(made, verifiers=made.verifiers[1:])
    with pytest.raises(InputError, match="verifier, rule and replayed must be given together"):
        replace(made, verifiers=(None,) * len(made.trees))


@pytest.mark.parametrize(
    "limits",
    [{"max_depth": 1}, {"max_fanout": 1, "max_depth": 3}, {"max_fanout": 2, "max_depth": 2}, {}],
    ids=str,
)
@pytest.mark.parametrize("rates", [[0.4, 0.3, 0.1, 0.05], [0.0, 0.0]], ids=str)
def test_limits_and_narrow_traces_are_kept_to(limits: dict[str, Any], rates: list[float]) -> None:
    """Texts that rank two candidates, or only a chain of 3, judge no wider and no longer trees."""
    ranks = np.array([0, 1, -1, 0, 0] * 12)
    for texts in ([GreedyText(ranks, candidates=2)] * 3, [ChainText(np.array([3, 2, 1, 0] * 15), 3)] * 3):
        plan = search(st.Acceptance.by_rank(rates), LATENCY, max_budget=8, replays=Replays(texts), **limits)
        assert Replays(texts).can_replay(plan.tree)
        assert plan.tree.max_depth <= limits.get("max_depth", 8)


def test_one_long_text_does_not_decide_alone() -> None:
    """19 hard texts of 8 tokens and an easy one of 40: no chain of 32."""
    rng = np.random.default_rng(0)
    texts = [GreedyText(np.where(rng.random(8) < 0.2, 0, -1)) for _ in range(19)] + [GreedyText(np.zeros(40, int))]
    plan = search(st.Acceptance.by_rank([0.4, 0.1]), LATENCY, max_budget=32, replays=Replays(texts))
    assert plan.tree.max_depth <= 3
    with pytest.raises(InputError, match="texts are too short to plan with: .*; record more tokens per prompt"):
        search(RATES, LATENCY, max_budget=4, replays=Replays([GreedyText(np.array([0, 0]))]))


def test_an_interval_needs_cycles_in_two_texts() -> None:
    texts = Replays([GreedyText(np.zeros(30, int)), GreedyText(np.zeros(3, int))])
    assert evaluate(st.Tree.chain(8), RATES, LATENCY, replays=texts).block_efficiency_interval is None


def test_a_plan_that_is_off_by_replay_says_so_and_exports_nothing() -> None:
    texts = Replays([GreedyText(np.full(50, -1))] * 2)
    off = search(st.Acceptance.by_rank([0.9]), LATENCY, max_budget=8, replays=texts)
    assert off.summary == "Do not speculate: after 0 tokens of context no tree that was replayed is faster than " + (
        "plain decoding."
    )
    made = schedule_of(off)
    assert [made.trees[number].budget for number in (*made.choice, *made.chain_choice)] == [0, 0]


def test_a_chain_that_was_replayed_is_the_chain_that_is_exported() -> None:
    texts = Replays([GreedyText(np.array([0, -1] * 20))] * 2)
    made = schedule_of(evaluate(st.Tree.chain(2), st.Acceptance.by_rank([0.9]), LATENCY, replays=texts))
    assert made.trees[made.chain_choice[0]] == st.Tree.chain(2)


def test_prompts_that_were_changed_are_refused(trace: Path, tiny: Pair) -> None:
    if replays(trace, tiny).greedy:
        return
    held = (trace / PROMPTS).read_text()
    try:
        for text in ("{", "[[1, 2]]", json.dumps(json.loads(held)[::-1])):
            (trace / PROMPTS).write_text(text)
            with pytest.raises(InputError, match="prompts.json .*(record the trace again|is damaged)"):
                replays(trace, tiny)
    finally:
        (trace / PROMPTS).write_text(held)
