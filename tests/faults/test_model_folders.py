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
from safetensors.torch import load_file

from reference.models import PairError, load_pair

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
    """config.json has these settings."""
    return lambda folder: write(folder / "config.json", **settings)


OWN_MODEL = configured(model_type="evil", architectures=["M"], auto_map=MODEL)
ELSEWHERE = configured(model_type="evil", auto_map={"AutoConfig": "evil/repository--evil.C"})
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "model": (OWN_MODEL, "cannot be loaded as a causal model"),
    "model elsewhere": (ELSEWHERE, "cannot be loaded as a causal model"),
    "pytorch_model.bin": (
        pickles("pytorch_model.bin"),
        "has no weights in safetensors; .*convert",
    ),
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
    with pytest.raises(PairError, match=f"target folder .*hostile {message}"):
        load_pair(folder, tiny_folders / "draft")


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
