"""The target's own texts: greedy and sampled ones, up to the first stop token."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference.losses import loss_of
from reference.models import Pair
from reference.part_files import claimed
from reference.train.head import HeadRecipe, train_head
from reference.train.own_texts import OwnTexts, corpus_pieces
from tests.helpers import refuses
from tests.reference.sampled_text import generated
from tests.reference.train_heads import config, own_texts, write_texts


@pytest.fixture(scope="module")
def texts(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> OwnTexts:
    return own_texts(tiny, tmp_path_factory.mktemp("texts"))


def test_texts_of_the_first_folder_are_greedy_and_of_the_second_sampled(tiny: Pair, texts: OwnTexts) -> None:
    batch = texts.batch(range(6))
    for row in range(6):
        own = batch.tokens[row][batch.own[row]].tolist()
        assert (own == generated(tiny, batch.tokens[row, :8].tolist(), 12)[: len(own)]) == (row < 3)
        assert not tiny.stop_tokens & {*own[:-1]}
        assert len(own) == 12 or own[-1] in tiny.stop_tokens


def test_short_corpora_and_files_without_provenance_are_refused(tiny: Pair, texts: OwnTexts, tmp_path: Path) -> None:
    """Not even by a training of a head, which writes weights of the same name."""
    with pytest.raises(ValueError, match="holds a trace, not a profile"), claimed(texts.folders[0], "profile"):
        pass
    refuses("corpus has no text of 8 tokens", corpus_pieces, [[1, 2, 3]], 2, 8)
    (tmp_path / "model.safetensors").write_bytes(b"mine")
    refuses("without its provenance.json", write_texts, tiny, tmp_path, 0)
    recipe = HeadRecipe(loss_of("eagle"), steps=1, rows=2)
    refuses("without its provenance.json", train_head, tiny, texts, tmp_path, recipe, config(tiny, "eagle1"))
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
