"""Every claim's check runs, and each counterexample is verified again by other means than the check's own."""

import json
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import spectheory as st
from proofs_check import CLAIMS, Finding, Verdict, opt_tree
from proofs_check.__main__ import main
from proofs_check.small_drafts import same_law, select, worth
from proofs_check.verdict import claim, every, smallest

KNOWN = {"O-3.1", "O-SUB", "O-ALG1", "O-3.2", "O-DELTA", "O-EA", "O-OFF1"}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return {name: check() for name, check in CLAIMS.items()}


@pytest.fixture(scope="module")
def counterexamples(verdicts: dict[str, Verdict]) -> dict[str, dict]:
    return {name: verdict.counterexample for name, verdict in verdicts.items() if verdict.counterexample}


def test_every_claim_has_a_legal_verdict(verdicts: dict[str, Verdict]) -> None:
    assert set(verdicts) <= KNOWN
    for name, verdict in verdicts.items():
        assert verdict.claim == name
        assert verdict.source
        assert verdict.statement
        assert verdict.evidence
        assert verdict.verdict in ("holds", "corrected", "false")
        assert (verdict.counterexample is None) == (verdict.verdict == "holds")
        assert verdict.truth or verdict.verdict != "corrected"


def test_a_finding_states_what_its_verdict_needs() -> None:
    with pytest.raises(ValueError, match="counterexample"):
        Finding("false", "because")
    with pytest.raises(ValueError, match="truth"):
        Finding("corrected", "because", counterexample={"n": 1})
    with pytest.raises(ValueError, match="truth"):
        Finding("holds", "because", truth="something else")


def test_a_check_that_does_not_come_out_gives_no_verdict() -> None:
    with pytest.raises(LookupError):
        smallest(range(3), lambda case: case > 5)
    with pytest.raises(ArithmeticError, match="fails on 2"):
        every(range(3), lambda case: case < 2)
    with pytest.raises(ValueError, match="already"):
        claim(next(iter(CLAIMS)), "", "")(lambda: Finding("holds", ""))


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["O-3.1"], as_json=True)
    (found,) = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "corrected"
    assert Fraction(found["counterexample"]["p_hat"]["AA"]) == 1


def is_tree(nodes: list[str]) -> bool:
    return all(len(node) == 1 or node[:-1] in nodes for node in nodes)


def total(p_hat: Mapping[str, Fraction], nodes: tuple[str, ...] | list[str]) -> Fraction:
    return sum((p_hat[node] for node in nodes), Fraction(0))


def best(p_hat: Mapping[str, Fraction], n: int) -> Fraction:
    return max(total(p_hat, nodes) for nodes in combinations(p_hat, n) if is_tree(list(nodes)))


def assert_is_a_draft(p_hat: Mapping[str, Fraction]) -> None:
    for node in ["", *p_hat]:
        below = [p_hat[name] for name in p_hat if name[:-1] == node and name != node]
        assert not below or sum(below) == (p_hat[node] if node else 1)


def assert_largest(p_hat: Mapping[str, Fraction], chosen: list[str]) -> None:
    assert min(p_hat[node] for node in chosen) >= max(p_hat[node] for node in p_hat if node not in chosen)


def p_hat_of(law: tuple[Fraction, ...], depth: int) -> dict[str, Fraction]:
    layer, p_hat = {"": Fraction(1)}, {}
    for _ in range(depth):
        layer = {node + token: layer[node] * p for node in layer for token, p in zip("ABC", law, strict=False)}
        p_hat |= layer
    return p_hat


def greedy_accepted(nodes: list[str], emitted: str, tokens: int) -> Fraction:
    """Drafted tokens that the library's verifier keeps when the target's first choice is always `emitted`."""
    order = ["", *sorted(nodes, key=lambda node: (len(node), node))]
    tree = st.Tree([-1, *[order.index(node[:-1]) for node in order[1:]]])
    p = np.array([[Fraction(int(token == emitted)) for token in "ABC"[:tokens]]] * len(order))
    drafted = [0, *["ABC".index(node[-1]) for node in order[1:]]]
    draft = st.Draft.in_order(tree, drafted, p * 0 + Fraction(1, tokens), st.DrawRule.TOP_K)
    return st.verify.Greedy().outcome(draft, p).block_efficiency - 1


def test_o_31_is_not_strict(counterexamples: dict[str, dict]) -> None:
    case = counterexamples["O-3.1"]
    assert_is_a_draft(case["p_hat"])
    assert case["v_i"] != case["v_j"]
    assert case["v_i"].startswith(case["v_j"])
    assert case["p_hat"][case["v_i"]] == case["p_hat"][case["v_j"]] > 0


def test_o_sub_orphans_a_node(counterexamples: dict[str, dict]) -> None:
    case = counterexamples["O-SUB"]
    assert_is_a_draft(case["p_hat"])
    assert_largest(case["p_hat"], case["chosen"])
    assert len(case["chosen"]) == case["n"]
    assert not is_tree(case["chosen"])


def test_o_alg1_ties_and_delta(counterexamples: dict[str, dict]) -> None:
    ties, early = counterexamples["O-ALG1"]["ties"], counterexamples["O-ALG1"]["delta"]
    for case in (ties, early):
        assert_is_a_draft(case["p_hat"])
        assert len(case["chosen"]) == case["n"] == max(map(len, case["p_hat"])) == 2
    first_layer = sorted((p for node, p in ties["p_hat"].items() if len(node) == 1), reverse=True)[:2]
    assert sum(first_layer) > ties["delta"] == 0  # so it drafts a second layer, and stops at depth n
    assert_largest(ties["p_hat"], ties["chosen"])
    assert not is_tree(ties["chosen"])

    layer = {node: p for node, p in early["p_hat"].items() if len(node) == 1}
    assert sorted(early["chosen"]) == sorted(layer)
    assert sum(layer.values()) <= early["delta"] <= 1  # so it stops after one layer
    assert total(early["p_hat"], early["chosen"]) < best(early["p_hat"], 2)


@pytest.mark.parametrize("kind", ["any", "greedy"])
def test_o_ea_the_largest_sum_of_p_hat_is_not_accepted_most(counterexamples: dict[str, dict], kind: str) -> None:
    case = counterexamples["O-EA"][kind]
    p_hat, emitted = p_hat_of(case["draft"], case["n"]), "AB"[case["target"].index(1)]
    assert total(p_hat, case["chosen"]) == best(p_hat, case["n"]) > total(p_hat, case["better"])
    assert greedy_accepted(case["chosen"], emitted, 2) == case["chosen_accepted"]
    assert greedy_accepted(case["better"], emitted, 2) == case["better_accepted"] > case["chosen_accepted"]


def test_o_off1_counts_one_more(counterexamples: dict[str, dict]) -> None:
    case = counterexamples["O-OFF1"]
    assert set(case["p_hat"].values()) == {0, 1}  # target = draft is greedy here
    assert case["eq_3"] == total(case["p_hat"], case["chosen"])
    assert case["expected_a"] == 1 + greedy_accepted(case["chosen"], "A", 2) == 1 + case["eq_3"]


def test_o_delta_the_best_threshold_is_below_mu(counterexamples: dict[str, dict]) -> None:
    case = counterexamples["O-DELTA"]
    n, mu, p_hat = case["n"], case["mu"], p_hat_of(case["law"], case["n"])

    def decode(delta: Fraction) -> Fraction:
        """Speed of Algorithm 1, word by word, when the target always emits A."""

        def top(nodes: list[str]) -> list[str]:
            return sorted(nodes, key=lambda node: (-p_hat[node], len(node)))[:n]

        layer = drafted = top([node for node in p_hat if len(node) == 1])
        before = Fraction(0)
        while len(layer[0]) < n and total(p_hat, top(drafted)) - before > delta:
            before = total(p_hat, top(drafted))
            layer = top([node for node in p_hat if node[:-1] in layer])
            drafted = drafted + layer
        chosen = top(drafted)
        return (1 + greedy_accepted(chosen, "A", len(case["law"]))) / (1 + mu * len(layer[0]))

    deltas = [Fraction(step, 200) for step in range(201)]
    assert max(decode(delta) for delta in deltas if delta >= mu) == case["speed_inside"]
    assert max(map(decode, deltas)) == case["speed_best"] > max(case["speed_inside"], 1)


@pytest.mark.parametrize("law", [(0.6, 0.3, 0.1), (0.5, 0.25, 0.25), (0.9, 0.05, 0.05)])
def test_algorithm_1_finds_what_the_library_finds(law: tuple[float, ...]) -> None:
    n = 4
    hat = same_law(tuple(map(Fraction, law)), n)
    chosen = select(opt_tree.grown(n, hat, Fraction(0)), n, hat)
    acceptance = st.Acceptance.by_rank(law)
    assert st.block_efficiency(st.best_tree(acceptance, n), acceptance) == pytest.approx(1 + float(worth(chosen, hat)))
