"""Makes the sample files of the pages that need a model: greedy texts, and a tiny EAGLE-3 head.

Run `python docs/generate_samples.py`; it rewrites these files in spectheory/data/samples. The logs and scrapes beside
them have made-up numbers in the formats of the engines, most from servers that an earlier version of `simulate`
simulated.
"""

from __future__ import annotations

import json
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "spectheory" / "data" / "samples"


def greedy_texts(tokens: int = 24) -> dict[str, str]:
    """Token ids of greedy texts of the shipped target: in float32, in bfloat16, and with a wrong token."""
    import torch

    from reference.models import load_pair
    from reference.prompts import encode_prompts, load_prompts

    found: dict[str, list[int]] = {}
    for name, dtype in (("plain", torch.float32), ("speculative", torch.bfloat16)):
        pair = load_pair(dtype=dtype)
        (prompt,) = encode_prompts(pair, load_prompts(count=1, skip=5), 32)
        text: list[int] = []
        with torch.inference_mode():
            for _ in range(tokens):
                logits = pair.target(torch.tensor([prompt + text])).logits[0, -1]
                text.append(int(logits.argmax()))
        found |= {"prompt": prompt, name: text}
    wrong = found["plain"].copy()
    wrong[9] = found["plain"][8]
    return {f"{name}.json": json.dumps(ids) + "\n" for name, ids in (found | {"wrong": wrong}).items()}


def write_tiny_head(folder: Path) -> None:
    """Write an EAGLE-3 head of random weights for a tiny target, in the layout of vLLM's speculators."""
    import torch

    from reference.heads import Eagle3Head, HeadConfig, new_head, write_head

    torch.manual_seed(0)
    head = new_head(HeadConfig("eagle3", 32, 48, 40, 4, 2, 8, draft_vocab_size=24))
    if isinstance(head, Eagle3Head):
        head.set_vocabulary(torch.arange(24))
    write_head(head.eval().requires_grad_(False), folder, "speculators", overwrite=True)


def main() -> None:
    """Write the sample files."""
    SAMPLES.mkdir(exist_ok=True)
    for name, text in greedy_texts().items():
        (SAMPLES / name).write_text(text, encoding="utf-8")
    write_tiny_head(SAMPLES / "head")


if __name__ == "__main__":
    main()
