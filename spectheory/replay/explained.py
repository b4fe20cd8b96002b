"""`explain`: why tau is what it is on recorded texts, and what changes would give."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spectheory.core.draft import DrawRule
from spectheory.core.errors import InputError
from spectheory.core.tree import Tree
from spectheory.otlp import Naive
from spectheory.replay.contexts import context_groups
from spectheory.replay.explained_record import Explained
from spectheory.replay.misses import misses
from spectheory.replay.other_choices import other_choices, planned_rule, what_if
from spectheory.replay.replays import Replays
from spectheory.results.tally import Tally
from spectheory.verify import Greedy, TopDown, Verifier, name_of

Progress = Callable[[int, int], None]
"""Callback with (finished, total) numbers of replays."""


def explain(
    replays: Replays,
    tree: Tree,
    verifier: Verifier | None = None,
    rule: DrawRule | None = None,
    *,
    measured: Tally | None = None,
    progress: Progress = lambda finished, total: None,
) -> Explained:
    """Where tau is lost with a tree and a verifier on recorded texts, and what other choices give on the same texts.

    The other choices are: other lossless verifiers; a tree that is one level deeper or shallower, or whose root has one
    child more or one fewer; and a draft that is closer to the target, see `closer` of `Replays.replay`. A choice that
    the texts cannot judge is left out: a tree too deep or too wide for them, or a better draft for records of accepted
    lengths. If a chain becomes a tree, it is drawn without replacement, and verified by `Traversal` where the verifier
    does not suit trees.

    Args:
        replays: the texts.
        tree: a static tree with at least one drafted node.
        verifier: the verifier; None means `Greedy` for greedy text and `TopDown(Naive())` otherwise.
        rule: how children are drawn; None means independent draws for a chain, and draws without replacement for a
            tree. Greedy decoding draws nothing.
        measured: tally of a run whose requests are those of the texts, in their order.
        progress: callback to which the number of finished replays is reported.

    Raises:
        InputError: the tree has no drafted node, it cannot be replayed on the texts with this verifier, or the tally is
            of another tree, verifier or number of requests.
    """
    if not tree.budget:
        raise InputError("tree must have at least one drafted node to be explained, got the root alone")
    if verifier is None:
        verifier = Greedy() if replays.greedy else TopDown(Naive())
    if rule is None:
        planned = planned_rule(tree)
        rule = planned if planned in verifier.rules else verifier.rules[0]
    replayed = replays.replay(tree, verifier, rule)
    others = list(other_choices(replays, tree, verifier, rule))
    depths = range(0 if replays.recorded else tree.max_depth)
    total = len(others) + len(depths)
    perfect, changed = [], []
    for depth in depths:
        progress(depth, total)
        perfect.append(replays.replay(tree, verifier, rule, perfect=depth).tau)
    for number, (change, other, by, drawn, closer) in enumerate(others, start=len(depths)):
        progress(number, total)
        found = replays.replay(other, by, drawn, closer=closer)
        name = None if replays.recorded else name_of(by)
        changed.append(what_if(change, other, name, found, replayed))
    next_child, missed = misses(replays, tree, verifier, rule)
    return Explained(
        tree=tree,
        verifier=None if replays.recorded else name_of(verifier),
        replayed=replayed,
        reach=replays.reach(tree, verifier, rule),
        perfect=np.array(perfect),
        next_child=next_child,
        missed=missed,
        contexts=tuple(context_groups(replays, tree, verifier, rule)),
        what_if=tuple(changed),
        measured=measured,
    )
