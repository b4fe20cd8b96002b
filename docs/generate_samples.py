"""Makes the samples that need a model: greedy texts, and a tiny EAGLE-3 head. Run `python docs/generate_samples.py`.

The logs and scrapes beside them in spectheory/data/samples have made-up numbers in the formats of the engines, most
from servers that an earlier version of `simulate` simulated.
"""

from __future__ import annotations

import json

import torch

from reference.heads import Eagle3Head, HeadConfig, new_head, write_head
from reference.models import load_pair
from reference.prompts import encode_prompts, load_prompts
from spectheory.cli.listing import SAMPLES


@torch.inference_mode()
def greedy_texts(tokens: int = 24) -> dict[str, list[int]]:
    """Token ids of greedy texts of the shipped target: in float32, in bfloat16, and with a wrong token."""
    found: dict[str, list[int]] = {}
    for name, dtype in (("plain", torch.float32), ("speculative", torch.bfloat16)):
        pair, text = load_pair(dtype=dtype), []
        (prompt,) = encode_prompts(pair, load_prompts(count=1, skip=5), 32)
        for _ in range(tokens):
            text.append(int(pair.target(torch.tensor([prompt + text])).logits[0, -1].argmax()))
        found |= {"prompt": prompt, name: text}
    wrong = found["plain"].copy()
    wrong[9] = found["plain"][8]
    return found | {"wrong": wrong}


def tiny_head() -> Eagle3Head:
    """An EAGLE-3 head of random weights for a tiny target."""
    torch.manual_seed(0)
    head = new_head(HeadConfig("eagle3", 32, 48, 40, 4, 2, 8, draft_vocab_size=24))
    assert isinstance(head, Eagle3Head)
    head.set_vocabulary(torch.arange(24))
    return head.eval().requires_grad_(False)


if __name__ == "__main__":
    for name, text in greedy_texts().items():
        (SAMPLES / f"{name}.json").write_text(f"{json.dumps(text)}\n", encoding="utf-8")
    write_head(tiny_head(), SAMPLES / "head", "speculators", overwrite=True)
