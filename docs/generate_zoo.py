"""Write docs/zoo.md: every rule of the zoo, its verdict, and how many drafts or runs the certifier needed.

python docs/generate_zoo.py
"""

from __future__ import annotations

from pathlib import Path

import spectheory as st
from spectheory.certify.certificate import number
from spectheory.certify.zoo import SPECIMENS, STEPS
from spectheory.core.files import write_whole

PAGE = Path(__file__).parent / "zoo.md"
HEAD = """# The zoo

Rules that a certifier must judge correctly: wrong rules seen in engines and papers, and right rules that look wrong.
`python docs/generate_zoo.py` writes this page; the code is in `spectheory/certify/zoo`, and tests check each verdict.

## By enumeration

The table counts the worlds and drafts that were compared (80 worlds requested, and those tried to make a counterexample
smaller), and gives the largest total variation found. A total variation of 0 means: a token of probability 0 is emitted
if a random number is exactly 0; `certify_verifier` counts this only if it is asked to by `zero_coins=True`.

| rule | what it does | verdict | worlds | drafts | total variation |
| --- | --- | --- | --- | --- | --- |
"""
STEPS_HEAD = """
## As black boxes

Whole decoding steps in two contexts. The table counts the runs until the evidence passed 10^6 (wrong steps, alpha =
1e-6), or until the total variation was bounded by 0.05 (right steps, alpha = 0.01). Seed 0.

| step | what it does | verdict | runs |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    text = HEAD
    for specimen in SPECIMENS:
        found = st.certify_verifier(
            specimen.given, policies=specimen.policies, cases=80, zero_coins=specimen.zero_coins
        )
        off = number(found.counterexample.total_variation) if found.counterexample else ""
        about = " ".join(specimen.about.split())
        text += f"| {specimen.name} | {about} | {found.verdict.name} | {found.cases} | {found.drafts:,} | {off} |\n"
    text += STEPS_HEAD
    for step in STEPS:
        alpha = 0.01 if step.is_lossless else 1e-6
        result = st.certify_step(
            step.step, step.target, vocab_size=step.vocab_size, contexts=((), (3,)), alpha=alpha, tv=0.05
        )
        text += f"| {step.name} | {' '.join(step.about.split())} | {result.verdict.name} | {result.samples:,} |\n"
    return text


if __name__ == "__main__":
    write_whole(PAGE, page())
    print(f"wrote {PAGE}")
