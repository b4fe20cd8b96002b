"""The list of drafters: complete, and open to drafters of other packages."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import spectheory as st
from reference import drafters as room
from reference.compare import entrants
from reference.decode import Decoder
from reference.drafters import ALL, Drafter, DrafterKind, drafters
from reference.models import Pair
from reference.random_streams import streams
from reference.sampling import Sampling
from spectheory.core.plugins import PluginWarning
from tests.helpers import install_toy
from tests.reference.checked import Checked
from tests.reference.sampled_text import generated

SOURCE = '''
from dataclasses import dataclass
from reference.drafters import Drafter, Drafting
from spectheory import Draft, DrawRule, Tree

@dataclass(frozen=True)
class ToyDrafter(Drafter):
    """Drafts the text's last token again."""

    length: int = 2

    def rule(self, sampling):
        return DrawRule.TOP_K

    def start(self, pair, sampling):
        return ToyDrafting(self.length)

class ToyDrafting(Drafting):
    def __init__(self, length):
        self.length = length

    def read(self, prompt, logits):
        pass

    def commit(self, path, emitted, logits=None):
        self.last = emitted[-1]

    def grow(self, room, rng):
        tree = Tree.chain(min(room, self.length))
        tokens, q = [self.last] * (tree.budget + 1), [None] * (tree.budget + 1)
        return Draft(tree, tokens, q, tree.child_lists, DrawRule.TOP_K)

longer = ToyDrafter(3)
'''
PLAN = st.plan(st.Acceptance.by_rank([0.6, 0.2]), st.Latency.constant(draft_seconds=0.05), max_budget=3)


@pytest.fixture(params=["ToyDrafter", "longer"])
def toy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DrafterKind:
    """Registered as a class, or as an instance with settings of its own."""
    install_toy(tmp_path, monkeypatch, SOURCE, drafters=request.param)
    return drafters()[-1]


def test_every_drafter_is_listed_with_settings_for_each_use() -> None:
    classes = {kind for kind in vars(room).values() if inspect.isclass(kind) and issubclass(kind, Drafter)}
    listed = {type(drafter) for kind in ALL for drafter in kind.small()}
    assert listed == classes - {Drafter}
    for kind in ALL:
        (own,) = {type(drafter) for drafter in kind.small()}
        assert {type(drafter) for drafter in kind.compared(Sampling(1.0), PLAN).values()} == {own}
        assert {type(drafter) for drafter in kind.greedy()} <= {own}


def test_a_drafter_of_another_package_is_listed_last(toy: DrafterKind) -> None:
    assert len(drafters()) == len(ALL) + 1
    (drafter,) = toy.small()
    assert repr(drafter) in ("ToyDrafter(length=2)", "ToyDrafter(length=3)")


def test_a_drafter_of_another_package_decodes(toy: DrafterKind, tiny: Pair) -> None:
    (drafter,) = toy.greedy()
    prompt = list(range(20, 50))
    assert Decoder(tiny, drafter).generate(prompt, 40).tokens == generated(tiny, prompt, 40)
    text = Decoder(tiny, Checked(drafter), Sampling(1.0)).generate(prompt, 40, *streams(tiny, 0))
    assert len(text.tokens) == 40


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_drafter_of_another_package_is_compared(toy: DrafterKind, tiny: Pair, temperature: float) -> None:
    last = entrants(tiny, PLAN, Sampling(temperature))[-1]
    assert str(last) == f"ToyDrafter, {'NSS' if temperature else 'Greedy'}"
    assert len(last.decode([1, 2, 3], 4, 0).tokens) == 4


def test_what_is_no_drafter_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(tmp_path, monkeypatch, SOURCE, drafters="ToyDrafting")
    with pytest.warns(PluginWarning, match=r"ToyDrafting of group spectheory.drafters .* must be a Drafter"):
        assert drafters() == list(ALL)
