"""Certify the reference decoder as a black box, with the shipped pair cut down to a vocabulary of four tokens.

python examples/certify_decoder.py
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.models import DRAFT, Pair, load_pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory import Tree
from spectheory.certify import certify_step
from spectheory.otlp import RRS
from spectheory.verify import TopDown


def cut(model: PreTrainedModel, tokens: Sequence[int], layers: int | None = None) -> PreTrainedModel:
    """A copy of the model with only these tokens, renumbered 0, 1, ..., and only the first `layers` layers, if given.

    With all layers, its probabilities for a text of these tokens are the model's own, scaled to sum to 1.
    """
    config = deepcopy(model.config)
    config.vocab_size, config.bos_token_id, config.eos_token_id = len(tokens), None, None
    config.num_hidden_layers = layers or config.num_hidden_layers
    small = type(model)(config).eval().requires_grad_(False)
    wide, rows = model.state_dict(), torch.tensor(tokens)
    for name, weight in small.state_dict().items():
        weight.copy_(wide[name] if wide[name].shape == weight.shape else wide[name][rows])
    return small


def few_tokens(pair: Pair, tokens: Sequence[int], layers: int | None = None) -> Pair:
    """The pair with both models cut to `tokens`, and the target to `layers` layers; the draft keeps all its layers."""
    return replace(pair, target=cut(pair.target, tokens, layers), draft=cut(pair.draft, tokens))


def main(max_samples: int = 1_000, layers: int = 2) -> None:
    """Print the certificate for a tree drawn without replacement and verified by recursive rejection sampling."""
    shipped = load_pair(draft=DRAFT)
    pair = few_tokens(shipped, [shipped.tokenizer.encode(word)[0] for word in "().,"], layers)
    decoder = Decoder(pair, PlannedTree(Tree.k_ary(2, 2)), Sampling(0.8), TopDown(RRS()))
    draft_rng, prompt = streams(pair, 0)[0], [0, 1, 2, 3]

    @torch.inference_mode()
    def target(context: Sequence[int]) -> list[float]:
        return decoder.sampling.distribution(pair.target(torch.tensor([[*prompt, *context]])).logits[0, -1]).tolist()

    certificate = certify_step(
        lambda context, rng: decoder.generate([*prompt, *context], 3, draft_rng, rng).tokens,
        target, length=3, vocab_size=4, alpha=1e-3, tv=0.15, max_samples=max_samples,
    )  # fmt: skip
    print("\n".join(certificate.lines()))


if __name__ == "__main__":
    main()
