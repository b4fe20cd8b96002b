"""Labels of a selector: E[tau] of each tree at roots of recorded texts, with the features there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int
from torch import Generator, Tensor

from reference.cached_model import CachedModel
from reference.candidates import child_tokens
from reference.host_arrays import numpy_on_host, to_host
from reference.judge import HeldOutTexts
from reference.models import Pair
from reference.random_streams import Uniforms
from reference.sampling import Sampling
from reference.selector.network import KNOWN, Features, known_scalars
from reference.selector.shared_draws import SharedDraws, Trie
from reference.selector.trees import ActionSpace
from spectheory import DrawRule
from spectheory.core.arrays import as_distributions
from spectheory.core.checks import check_whole
from spectheory.core.errors import InputError
from spectheory.verify import TopDown, verifier_of


@dataclass(frozen=True, eq=False)
class Labels:
    """E[tau] of each tree at R roots, with the features.

    Attributes:
        space: the actions.
        sampling: temperature, top-k and top-p of texts, target and draft.
        verifier: name of the verifier.
        prompts: (R,) hash of the source of each root's text, or of its prompt. Roots of equal hashes are one cluster.
        features: what is known at each root.
        tokens: E[tau] given each draw; the mean over the draws is unbiased.
        weights: hash of the weights of the pair of the texts.
    """

    space: ActionSpace
    sampling: Sampling
    verifier: str
    prompts: np.ndarray
    features: Features
    tokens: Float32[np.ndarray, "R draws trees"]
    weights: str

    @property
    def contexts(self) -> Int[np.ndarray, " R"]:
        """Number of tokens before each root."""
        return self.features.scalars[:, KNOWN - 1].numpy().astype(np.int64)


@torch.no_grad()
def selector_labels(
    texts: HeldOutTexts,
    verifier: str = "SpecInfer",
    *,
    every: int = 16,
    draws: int = 4,
    seed: int = 0,
    space: ActionSpace = ActionSpace(),  # noqa: B008
) -> Labels:
    """Labels at roots of texts.

    Args:
        texts: texts of the target, sampled above temperature 0.
        verifier: name of a node solver that is lossless for i.i.d. draws, such as SpecInfer.
        every: number of tokens of a text between two roots.
        draws: number of independent draws of the paths at each root, at least 2: one can choose and another judge.
        seed: seed of the draws.
        space: the actions.

    Raises:
        InputError: a number is out of range, the verifier is not such a node solver, the texts are greedy, the draft is
            a draft head, no text has a root, or a tree does not fit the context.
        LogitsError: a model returns logits that give no probabilities.
    """
    pair, solving = texts.pair, verifier_of(verifier)
    pair.require_draft_model("a selector")
    if type(solving) is not TopDown or DrawRule.IID not in solving.rules or solving.solver.small_vocabulary_only:
        raise InputError(
            f"verifier {verifier} must be a node solver that is lossless for i.i.d. draws and for any vocabulary, such "
            "as SpecInfer: the expected tokens are exact only for these"
        )
    if texts.sampling.greedy:
        raise InputError("temperature of the texts must be above 0, got 0: i.i.d. paths of greedy drafts are all equal")
    check_whole("every", every, 1, most=max(map(len, texts.texts)))
    check_whole("draws", draws, 2)
    longest = max(len(prompt) + len(text) for prompt, text in zip(texts.prompts, texts.texts, strict=True))
    if (needed := longest + space.deepest) > pair.context:
        raise InputError(f"texts and trees need a context of {needed}, these models have {pair.context}: shorten texts")
    prompts, features, tokens = [], [], []
    for number, (prompt, text) in enumerate(zip(texts.prompts, texts.texts, strict=True)):
        roots = range(len(prompt) + every - 1, len(prompt) + len(text), every)
        reader = _Reader(pair, texts.sampling, [*prompt, *text])
        state = np.random.SeedSequence([seed, number]).generate_state(1)[0]
        rng = Uniforms(Generator().manual_seed(int(state)))
        for root in reversed(roots):
            shared = reader.draws(root, space, draws, rng)
            prompts.append(texts.hashes[number])
            features.append(reader.features(root))
            tokens.append(shared.expected_tokens(solving.solver, reader.target_rows(root, shared.trie)))
    known = Features(*(torch.cat(rows).float().cpu() for rows in zip(*features, strict=True)))
    return Labels(
        space, texts.sampling, verifier, np.array(prompts), known, np.array(tokens, np.float32), pair.fingerprint
    )


class _Reader:
    """A text in both models. Roots are read from the last one to the first, so that the caches are only ever cut."""

    def __init__(self, pair: Pair, sampling: Sampling, tokens: list[int]) -> None:
        self.sampling, self.tokens, self.device = sampling, tokens, pair.device
        self.models = [
            CachedModel(model, pair.vocab_size, f"{role} {name}")  # type: ignore[arg-type]
            for role, model, name in zip(("target", "draft"), (pair.target, pair.draft), pair.names, strict=True)
        ]
        for model in self.models:
            model.taps = (model.model.config.num_hidden_layers,)
        logits = [model.forward(torch.tensor([tokens], device=self.device)) for model in self.models]
        self.p, self.q = (sampling.distribution(rows) for rows in logits)
        self.states = [model.states for model in self.models]
        for model in self.models:
            model.taps = ()

    def features(self, root: int) -> tuple[Tensor, ...]:
        """The features of the root `tokens[root]`."""
        before, here = slice(root - 1, root), slice(root, root + 1)
        target, draft = self.states
        scalars = known_scalars(self.p[before], self.q[before], self.q[here], [root])
        return target[before], draft[before], draft[here], scalars

    def draws(self, root: int, space: ActionSpace, draws: int, rng: Uniforms) -> SharedDraws:
        """Paths that the draft draws after the root."""
        model = self.models[1]
        model.keep(root, [])
        tree, trie = model.rows(), Trie(self.tokens[root])

        def rows(first: int, end: int) -> list[Any]:
            tree.add(trie.parent[first:end], first)
            logits = model.forward_tree(self._fed(trie, first, end), root, tree, first)
            return list(numpy_on_host(self.sampling.distribution(logits)))

        def children(q: Sequence[np.ndarray], counts: Sequence[int]) -> list[list[int]]:
            if not counts:
                return []
            drawn = child_tokens(np.stack(q), max(counts), DrawRule.IID, rng).tolist()
            return [row[:count] for row, count in zip(drawn, counts, strict=True)]

        return SharedDraws.drawn(space, draws, trie, rows, children)

    def target_rows(self, root: int, trie: Trie) -> list[Float64[np.ndarray, " V"]]:
        """The target's distribution at each node, from one forward."""
        model = self.models[0]
        model.keep(root, [])
        tree = model.rows()
        tree.add(trie.parent)
        logits = model.forward_tree(self._fed(trie, 0, len(trie.tokens)), root, tree)
        return list(as_distributions("p", to_host(self.sampling.distribution(logits))))

    def _fed(self, trie: Trie, first: int, end: int) -> Tensor:
        return torch.tensor([trie.tokens[first:end]], device=self.device)
