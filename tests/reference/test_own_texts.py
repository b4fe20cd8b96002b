"""The target's own texts with hidden states: what is stored, resumed and refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from reference.heads import new_head
from reference.losses import loss_of
from reference.models import Pair
from reference.part_files import claimed
from reference.train.head import HeadRecipe, train_head
from reference.train.own_texts import OwnTexts, TextSettings, write_own_texts
from tests.reference.sampled_text import generated
from tests.reference.train_heads import SETTINGS, config, corpus, head, own_texts
from tests.refusals import refuses


@pytest.fixture(scope="module")
def texts(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> OwnTexts:
    return own_texts(tiny, tmp_path_factory.mktemp("texts") / "own")


def test_the_first_file_is_greedy_and_the_second_sampled(tiny: Pair, texts: OwnTexts) -> None:
    batch = texts.batch(range(6))
    for row in range(6):
        prompt = batch.tokens[row, :8].tolist()
        own = batch.tokens[row, 8 : batch.lengths[row]].tolist()
        is_greedy = own == generated(tiny, prompt, 12)[: len(own)]
        assert is_greedy == (row // 2 % 2 == 0)


def test_stored_states_are_those_of_a_forward_of_the_whole_text(tiny: Pair, texts: OwnTexts) -> None:
    """Stored in half precision: a relative error of at most 2^-11, and absolute ones below its smallest number."""
    batch, model = texts.batch([0, 3, 5]), tiny.target
    with torch.no_grad():
        found: Any = model(batch.tokens, output_hidden_states=True)
    expected = torch.stack([found.hidden_states[state] for state in (0, 1, len(found.hidden_states) - 1)], 2)
    torch.testing.assert_close(batch.states.double(), expected, rtol=2**-10, atol=1e-6)


def test_texts_end_with_the_first_stop_token(tiny: Pair, texts: OwnTexts) -> None:
    batch = texts.batch(range(6))
    stop = min(tiny.stop_tokens)
    for tokens, length in zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True):
        own = tokens[8:]
        assert length == 8 + (own.index(stop) + 1 if stop in own else len(own))


def test_an_interrupted_run_gives_the_same_files(tiny: Pair, texts: OwnTexts, tmp_path: Path) -> None:
    def stop(finished: int, total: int) -> None:
        assert (finished, total) == (2, 6)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_own_texts(tiny, corpus(tiny), SETTINGS, tmp_path, stop)
    refuses("part-000002.safetensors is missing or damaged: .* repeat the command", OwnTexts(tmp_path).batch, [2])
    moved = replace(tiny, names=("another folder", "of the same weights"))
    write_own_texts(moved, corpus(tiny), SETTINGS, tmp_path)
    parts = sorted(path.name for path in tmp_path.glob("part-*"))
    assert len(parts) == 3
    assert [(tmp_path / part).read_bytes() for part in parts] == [(texts.folder / part).read_bytes() for part in parts]


def test_other_texts_targets_and_layers_are_refused(tiny: Pair, texts: OwnTexts, tmp_path: Path) -> None:
    refuses("another seed", write_own_texts, tiny, corpus(tiny), replace(SETTINGS, seed=1), texts.folder)
    refuses("texts of another target", texts.columns, head(tiny, "eagle1"), tiny.draft)
    refuses("has no provenance.json", OwnTexts, tmp_path)
    refuses("corpus has no text of 8 tokens", write_own_texts, tiny, [[1, 2, 3]], SETTINGS, tmp_path)
    refuses("need a context of", write_own_texts, tiny, corpus(tiny), replace(SETTINGS, new_tokens=10**6), tmp_path)
    with pytest.raises(ValueError, match="layers 0, 99, which must be different layers"):
        write_own_texts(tiny, corpus(tiny), replace(SETTINGS, layers=(0, 99)), tmp_path)
    refuses("temperatures must be at least one", TextSettings, temperatures=())


def test_damaged_files_are_refused_by_name(tiny: Pair, tmp_path: Path) -> None:
    texts = own_texts(tiny, tmp_path)
    part = tmp_path / "part-000002.safetensors"
    part.write_bytes(b"half a file")
    refuses("part-000002.safetensors is missing or damaged: remove it and repeat", texts.batch, [2])


def test_a_head_that_reads_other_layers_is_refused(tiny: Pair, texts: OwnTexts) -> None:
    one = new_head(replace(config(tiny, "eagle3"), layers=(1,))).to(tiny.target.dtype).attach(tiny.target)
    assert texts.columns(one, tiny.target) == [1]
    assert texts.columns(head(tiny, "eagle1"), tiny.target) == [2]
    one.taps = (7,)
    refuses(r"holds the hidden states \[0, 1, 2\], the head reads \[7\] as well", texts.columns, one, tiny.target)


def test_files_without_provenance_are_not_taken_over(tiny: Pair, texts: OwnTexts, tmp_path: Path) -> None:
    """Not even by a training of a head, which writes weights of the same name."""
    with pytest.raises(ValueError, match="holds a texts of a target, not a trace"), claimed(texts.folder, "trace"):
        pass
    (tmp_path / "model.safetensors").write_bytes(b"mine")
    refuses("without its provenance.json", write_own_texts, tiny, corpus(tiny), SETTINGS, tmp_path)
    recipe = HeadRecipe(loss_of("eagle"), steps=1, rows=2)
    refuses("without its provenance.json", train_head, tiny, texts, tmp_path, recipe, config(tiny, "eagle1"))
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
