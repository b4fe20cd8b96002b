"""Hugging Face transformers."""

from __future__ import annotations

from spectheory.engines import hugging_face
from tests.refusals import refuses


def test_golden_hugging_face() -> None:
    assert hugging_face.export(4, version="5.23.0").files["generation_config.json"] == (
        '{\n "num_assistant_tokens": 4,\n "num_assistant_tokens_schedule": "constant",\n'
        ' "assistant_confidence_threshold": 0.0\n}\n'
    )


def test_hugging_face_refuses_what_it_cannot_run() -> None:
    refuses("length must be at least 1, got 0", hugging_face.export, 0, version="5.23")
    refuses(r"of transformers .* \(5.23\), got '4.57'", hugging_face.export, 3, version="4.57")
