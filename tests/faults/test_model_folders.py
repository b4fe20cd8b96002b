"""Model folders whose Python or pickles would write a marker: refused or ignored, and the marker is never there."""

from __future__ import annotations

import ast
import io
import json
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen2Config

from reference.models import load_pair
from tests.helpers import refuses

ROOT = Path(__file__).parents[2]


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """What the folder's code would write; it must not be there after the test."""
    file = tmp_path / "marker"
    yield file
    assert not file.exists()


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input: somebody who says yes to everything."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))


@pytest.fixture
def folder(tiny_folders: Path, tmp_path: Path, marker: Path, answers: None) -> Path:
    """A sound target folder with Python files beside it that would write the marker, as modules and as functions."""
    made = tmp_path / "hostile"
    shutil.copytree(tiny_folders / "target", made)
    code = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    code += "from transformers import LlamaConfig as C, LlamaForCausalLM as M, PreTrainedTokenizerFast as T\n"
    for name in ("evil.py", "custom_generate/generate.py", "generator_tokenizer/evil.py"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(code)
    return made


def write(file: Path, **changes: Any) -> None:
    """Change fields of a JSON file; it is made if it is not there."""
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(before | changes))


MODEL = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
TOKENIZER = {"AutoTokenizer": ["evil.T", "evil.T"]}


def pickles(*names: str, tokenizer: bool = False) -> Callable[[Path], None]:
    """The weights, or the tokenizer, are pickles that write the marker, under these names."""

    def change(folder: Path) -> None:
        for file in folder.glob("tokenizer.json" if tokenizer else "model.safetensors"):
            file.unlink()
        for name in names:
            (folder / name).write_bytes(pickle.dumps(Bomb(folder.parent / "marker")))

    return change


def shards(name: str) -> Callable[[Path], None]:
    """A safetensors index names one file for all weights."""

    def change(folder: Path) -> None:
        names = list(load_file(folder / "model.safetensors"))
        pickles()(folder)
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, name)})
        )
        place = folder / name
        if not place.name.endswith(".safetensors"):
            place.write_bytes(pickle.dumps(Bomb(folder.parent / "marker")))

    return change


def configured(**settings: Any) -> Callable[[Path], None]:
    return lambda folder: write(folder / "config.json", **settings)


OWN_MODEL = configured(model_type="evil", architectures=["M"], auto_map=MODEL)
ELSEWHERE = configured(model_type="evil", auto_map={"AutoConfig": "evil/repository--evil.C"})
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "model": (OWN_MODEL, "cannot be loaded as a causal model"),
    "model elsewhere": (ELSEWHERE, "cannot be loaded as a causal model"),
    "pytorch_model.bin": (pickles("pytorch_model.bin"), "has no weights in safetensors; .*convert"),
    "index of pickles": (shards("pytorch_model.bin"), "names weights that are no safetensors .* .'pytorch_model.bin'"),
    "index outside": (shards("../target.safetensors"), "names weights that are no safetensors of the folder"),
    "other configurations": (configured(configuration_files=["config.5.json"]), "names other files in its config.json"),
    "kernel of the Hub": (configured(_attn_implementation="x/y:evil"), "names an attention kernel of the Hub"),
    "pickled tokenizer": (pickles("tokenizer.pkl", tokenizer=True), "has no tokenizer but pickles"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_folders_that_would_run_code_are_refused_by_name(folder: Path, tiny_folders: Path, case: str) -> None:
    change, message = REFUSED[case]
    change(folder)
    refuses(f"target .*hostile {message}", load_pair, folder, tiny_folders / "draft")


def test_what_is_not_here_is_refused_by_name(
    tiny_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(name: str, **_: object) -> str:
        raise ConnectionError(f"no network for {name}\nand more lines")

    monkeypatch.setattr("reference.model_folders.snapshot_download", offline)
    said = r"target some/model is no folder here, and .* \(no network for some/model\): correct the name, connect"
    refuses(said, load_pair, "some/model")
    refuses("draft .*absent.gguf is not there", load_pair, tiny_folders / "target", tmp_path / "absent.gguf")
    (tmp_path / "odd.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("reference.model_folders.is_gguf_available", lambda: False)
    said = r"target .*odd.gguf needs the packages gguf and accelerate: pip install 'spectheory\[gguf\]'"
    refuses(said, load_pair, tmp_path / "odd.gguf")


def test_a_model_of_the_hub_is_fetched(tiny_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the repository's folders and no pickles; records hold its name."""
    asked = {}

    def fetch(name: str, **patterns: list[str]) -> str:
        asked[name] = patterns
        return str(tiny_folders / name.partition("/")[2])

    monkeypatch.setattr("reference.model_folders.snapshot_download", fetch)
    pair = load_pair("someone/target", "someone/draft")
    assert pair.fingerprint == load_pair(tiny_folders / "target", tiny_folders / "draft").fingerprint
    assert (pair.stamp["target"], pair.stamp["draft"]) == tuple(asked) == ("someone/target", "someone/draft")
    assert "*/*" in asked["someone/draft"]["ignore_patterns"]
    assert not any("bin" in pattern for pattern in asked["someone/draft"]["allow_patterns"])


def write_gguf(gguf: Any, file: Path, architecture: str, model: Any, tokenizer: Any) -> None:
    writer, config = gguf.GGUFWriter(file, architecture), model.config
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    vocabulary = tokenizer.get_vocab()
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_eos_token_id(0)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_dequantised(tiny_folders: Path, tmp_path: Path) -> None:
    """Its weights are those that were written; an architecture that transformers does not read is named."""
    gguf: Any = pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model: Any = AutoModelForCausalLM.from_config(Qwen2Config(vocab_size=300, num_key_value_heads=1, **shape))
    file, tokenizer = tmp_path / "tiny.gguf", load_pair(tiny_folders / "target", None).tokenizer
    write_gguf(gguf, file, "qwen2", model, tokenizer)
    pair, tokens = load_pair(file, None), torch.tensor([[5, 6, 7, 8]])
    assert (pair.tokenizer.get_vocab(), pair.stop_tokens) == (tokenizer.get_vocab(), {0})
    torch.testing.assert_close(pair.target(tokens).logits, model(tokens).logits)
    write_gguf(gguf, file, "abacus", model, tokenizer)
    refuses("target .*tiny.gguf cannot be loaded as a causal model .* transformers reads: .*abacus", load_pair, file)


def told_to_trust(folder: Path) -> None:
    for name in ("config", "tokenizer_config", "generation_config"):
        write(folder / f"{name}.json", trust_remote_code=True, auto_map=MODEL | TOKENIZER, custom_generate="evil")


def pickles_beside(folder: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "tokenizer.pkl", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Bomb(folder.parent / "marker")))


@pytest.mark.parametrize("change", [told_to_trust, pickles_beside], ids=lambda f: f.__name__)
def test_what_transformers_has_is_loaded_without_the_folders_code(
    folder: Path, tiny_folders: Path, change: Callable[[Path], None]
) -> None:
    """The weights are those of the sound folder, and the classes are transformers' own."""
    change(folder)
    pair = load_pair(folder, tiny_folders / "draft")
    wanted = load_pair(tiny_folders / "target", tiny_folders / "draft")
    assert pair.fingerprint == wanted.fingerprint
    assert all(type(part).__module__.startswith("transformers.") for part in (pair.target, pair.tokenizer))


SAFE = {"torch": ("weights_only", True), "np": ("allow_pickle", False), "numpy": ("allow_pickle", False)}
ROOMS = ("spectheory", "simulate", "reference", "proofs_check", "benchmarks", "docs", "notebooks")


@pytest.mark.parametrize("room", ROOMS)
def test_no_source_reads_files_that_can_run_code(room: str) -> None:
    """One module calls from_pretrained; checkpoints and arrays are read without pickles; nothing is evaluated."""
    for file in sorted((ROOT / room).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) (pickle|dill|cloudpickle|shelve|marshal)\b", text, re.MULTILINE), file
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            owner, _, name = ast.unparse(node.func).rpartition(".")
            keywords = {k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)}
            formulas = name == "eval" and file.name == "sentences.py"  # of claims, which bring code of their own anyway
            assert formulas or f"{owner}.{name}" not in {".eval", ".exec", "yaml.load", "joblib.load"}, file
            if name == "from_pretrained":
                assert file == ROOT / "reference" / "model_folders.py"
                assert (keywords["trust_remote_code"], keywords["local_files_only"]) == (False, True)
                assert "Model" not in owner or keywords["use_safetensors"] is True
            if name == "load" and owner in SAFE:
                keyword, value = SAFE[owner]
                assert keywords.get(keyword) is value, f"{file}: {owner}.load without {keyword}={value}"
