"""Tests of the reader of GGUF headers, on small files that the tests write, and of damaged files."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as hs

from spectheory.hardware.formats import BLOCKS
from spectheory.hardware.gguf import Gguf
from spectheory.hardware.model_config import ModelConfig
from spectheory.hardware.models import model
from tests.refusals import refuses

TYPES = {name: number for number, (name, _, _) in BLOCKS.items()}
HIDDEN, WIDTH, LAYERS, VOCABULARY = 256, 512, 3, 300
LLAMA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": LAYERS,
    "llama.embedding_length": HIDDEN,
    "llama.context_length": 4096,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.tokens": ["token"] * 5000,
    "tokenizer.ggml.scores": [0.5] * 5000,
}
Shapes = Sequence[tuple[str, tuple[int, ...], str]]


def llama_tensors(matrix: str = "Q4_K") -> list[tuple[str, tuple[int, ...], str]]:
    tensors: list[tuple[str, tuple[int, ...], str]]
    tensors = [("token_embd.weight", (HIDDEN, VOCABULARY), "Q4_K"), ("output.weight", (HIDDEN, VOCABULARY), "Q6_K")]
    tensors.append(("output_norm.weight", (HIDDEN,), "F32"))
    for layer in range(LAYERS):
        sizes = {"attn_q": HIDDEN, "attn_k": 128, "attn_v": 128, "attn_output": HIDDEN, "ffn_up": WIDTH}
        tensors += [(f"blk.{layer}.{name}.weight", (HIDDEN, rows), matrix) for name, rows in sizes.items()]
        tensors.append((f"blk.{layer}.ffn_down.weight", (WIDTH, HIDDEN), "Q6_K"))
        tensors.append((f"blk.{layer}.attn_norm.weight", (HIDDEN,), "F32"))
    return tensors


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: Any) -> tuple[int, bytes]:
    """The number of the type of a metadata value, and its bytes."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, text(value)
    kind = typed(value[0])[0] if value else 4
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(typed(one)[1] for one in value)


def gguf(metadata: Mapping[str, Any], tensors: Shapes, version: int = 3) -> bytes:
    """A GGUF file that ends after its header."""
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    for key, value in metadata.items():
        kind, data = typed(value)
        parts += [text(key), struct.pack("<I", kind), data]
    for name, shape, kind in tensors:
        parts += [text(name), struct.pack(f"<I{len(shape)}Q", len(shape), *shape), struct.pack("<IQ", TYPES[kind], 0)]
    return b"".join(parts)


def saved(file: Path, metadata: Mapping[str, Any], tensors: Shapes) -> Path:
    """The file, after its header was written."""
    file.write_bytes(gguf(metadata, tensors))
    return file


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return saved(tmp_path / "small.gguf", LLAMA, llama_tensors())


def test_a_dense_model_has_the_parameters_and_bytes_of_its_tensors(small: Path) -> None:
    sizes = model(small)
    matrices = LAYERS * HIDDEN * (2 * HIDDEN + 2 * 128 + WIDTH)
    down, head, norms = LAYERS * WIDTH * HIDDEN, HIDDEN * VOCABULARY, (LAYERS + 1) * HIDDEN
    assert sizes.parameters == matrices + down + 2 * head + norms
    assert sizes.shape.lookup_parameters == head
    expected = (matrices + head) * 4.5 / 8 + (down + head) * 6.5625 / 8 + norms * 4
    assert sizes.weight_bytes == pytest.approx(expected, rel=1e-12)
    assert sizes.read_bytes(1) == pytest.approx(expected - head * 4.5 / 8, rel=1e-12)
    assert sizes.kv_bytes_per_token == LAYERS * 2 * 2 * 64 * 2
    assert (sizes.vocabulary, sizes.hidden, sizes.longest_context, sizes.layers) == (VOCABULARY, HIDDEN, 4096, LAYERS)
    assert model(str(small)) == sizes


def test_experts_are_read_as_tokens_use_them(tmp_path: Path, small: Path) -> None:
    experts = [(f"blk.{layer}.ffn_gate_exps.weight", (HIDDEN, 32, 8), "MXFP4") for layer in range(LAYERS)]
    routers = [(f"blk.{layer}.ffn_gate_inp.weight", (HIDDEN, 8), "F32") for layer in range(LAYERS)]
    metadata = LLAMA | {"llama.expert_count": 8, "llama.expert_used_count": 2}
    path = saved(tmp_path / "moe.gguf", metadata, [*llama_tensors(), *experts, *routers])
    sizes, dense = ModelConfig.from_gguf(path), sum(one[1][0] * one[1][1] for one in routers)
    assert (sizes.shape.moe_layers, sizes.shape.experts, sizes.shape.experts_per_token) == (LAYERS, 8, 2)
    assert sizes.expert_bytes == pytest.approx(17 / 32)
    assert sizes.parameters - sizes.active_parameters == LAYERS * 6 * HIDDEN * 32
    assert sizes.parameters - model(small).parameters == dense + LAYERS * 8 * HIDDEN * 32
    wrong = saved(path, metadata | {"llama.expert_used_count": 9}, [*llama_tensors(), *experts])
    refuses("expert_used_count must be between 1 and the 8 experts", model, wrong)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, 3 * 100),
        ({"gemma2.attention.sliding_window": 7}, 100 + 2 * 7),
        ({"gemma2.attention.sliding_window": 7, "gemma2.attention.sliding_window_pattern": [True, True, True]}, 3 * 7),
        ({"gemma2.attention.sliding_window": 7, "gemma2.attention.sliding_window_pattern": 3}, 100 + 2 * 7),
        ({"gemma2.attention.key_length": 96}, 3 * 100 * 80 / 64),
        ({"gemma2.attention.head_count_kv": [2, 4, 6]}, 6 * 100),
    ],
)
def test_the_cache_follows_the_metadata(tmp_path: Path, change: dict[str, Any], kept: int) -> None:
    base = {key.replace("llama.", "gemma2."): value for key, value in LLAMA.items()}
    path = saved(tmp_path / "window.gguf", base | {"general.architecture": "gemma2"} | change, llama_tensors())
    assert model(path).kv_bytes(100) == kept * 2 * 2 * 64 * 2


def test_latent_attention_and_layers_for_prediction(tmp_path: Path) -> None:
    own = {"kv_lora_rank": 16, "head_count": 4, "head_count_kv": 1}
    metadata = {
        "general.architecture": "deepseek2",
        "deepseek2.block_count": LAYERS + 1,
        "deepseek2.nextn_predict_layers": 1,
        "deepseek2.embedding_length": HIDDEN,
        "deepseek2.rope.dimension_count": 8,
        **{f"deepseek2.attention.{key}": value for key, value in own.items()},
    }
    latent = [(f"blk.{layer}.attn_kv_a_mqa.weight", (HIDDEN, 24), "Q8_0") for layer in range(LAYERS + 1)]
    sizes = model(saved(tmp_path / "latent.gguf", metadata, [("token_embd.weight", (HIDDEN, 30), "Q8_0"), *latent]))
    assert sizes.kv_bytes_per_token == LAYERS * 24 * 2
    assert sizes.parameters == 30 * HIDDEN + LAYERS * 24 * HIDDEN
    assert sizes.shape.latent


def test_a_split_model_is_read_from_all_parts(tmp_path: Path, small: Path) -> None:
    tensors, names = llama_tensors(), [tmp_path / f"big-{part:05}-of-00002.gguf" for part in (1, 2)]
    saved(names[0], LLAMA | {"split.count": 2}, tensors[:7])
    refuses("there is no file .*big-00002-of-00002.gguf", model, names[0])
    saved(names[1], {"split.count": 2}, tensors[7:])
    assert model(names[0]).weight_bytes == model(small).weight_bytes
    refuses("is one of 2 files: give the first, like NAME-00001-of-00002", model, names[1])


def huge(entries: int, tensors: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04rest", "is not a GGUF file of version 2 or 3 in little-endian order: it begins with b'PK"),
        (gguf(LLAMA, [], version=3 << 24), "and version 50331648; give a GGUF file, or convert the model again"),
        (huge(0, 2**60), "announces 1,152,921,504,606,846,976 tensors, at most 1,000,000 are possible"),
        (huge(1, 0) + struct.pack("<Q", 2**62), "ends within its header: 4,611,686,018,427,387,904 bytes"),
        (huge(1, 0) + text("k") + struct.pack("<IIQ", 9, 4, 2**62), "ends within its header"),
        (huge(1, 0) + text("k") + struct.pack("<I", 77), "has metadata of the unknown type 77: the file is damaged"),
        (gguf(LLAMA, [("x", (3, 5), "Q4_K")]), r"tensor 'x' of type Q4_K with the shape \(3, 5\)"),
        (huge(0, 1) + text("x") + struct.pack("<IQIQ", 1, 32, 99, 0), "tensor 'x' has the unknown type 99: update"),
        (gguf({"general.architecture": "llama"}, llama_tensors()), "the metadata llama.block_count must be whole"),
        (gguf(LLAMA, []), "has no layers or no output head: give the GGUF file of a whole language model"),
        (gguf(LLAMA | {"llama.attention.head_count_kv": [1, 2]}, llama_tensors()), "must have a number for each layer"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as refusal:
        model(path)
    assert str(path) in str(refusal.value)


SMALL = gguf({**LLAMA, "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.scores": [0.5]}, llama_tensors())


@given(hs.integers(0, len(SMALL) - 1))
@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_ends_anywhere_in_its_header_is_refused(tmp_path: Path, end: int) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(SMALL[:end])
    refuses(r"short.gguf (ends within its header|is not a GGUF file)", Gguf.read, path)


@given(hs.lists(hs.tuples(hs.integers(0, len(SMALL) - 1), hs.integers(0, 255)), min_size=1, max_size=4))
@example([(8, 255)])
@settings(
    derandomize=True, deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_changed_bytes_are_read_or_refused_with_a_message(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data, path = bytearray(SMALL), tmp_path / "changed.gguf"
    for position, value in changes:
        data[position] = value
    path.write_bytes(data)
    try:
        sizes = model(path)
    except ValueError as error:
        assert "changed.gguf" in str(error)  # noqa: PT017
    else:
        assert 0 < sizes.read_bytes(1) <= sizes.weight_bytes < float("inf")
        assert sizes.kv_bytes(100) >= 0
