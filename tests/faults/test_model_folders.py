"""Model folders whose Python or pickles would write a marker: refused or ignored, and the marker is never there."""

from __future__ import annotations

import ast
import io
import json
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.dynamic_module_utils as dynamic_module_utils
from safetensors.torch import load_file
from transformers import AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from reference.model_folders import _loading
from reference.models import PairError, load_pair
from reference.train import loop

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


@pytest.fixture(params=["closed", "y"])
def answers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input: closed, or somebody who says yes to everything."""
    stdin = io.StringIO("y\n" * 100)
    if request.param == "closed":
        stdin.close()
    monkeypatch.setattr(sys, "stdin", stdin)


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


def named(name: str) -> Callable[[Path], None]:
    """config.json names a pickle as the file of the weights."""

    def change(folder: Path) -> None:
        pickles(*([] if ".." in name or name.startswith("/") else [name]))(folder)
        write(folder / "config.json", transformers_weights=name)

    return change


def configured(**settings: Any) -> Callable[[Path], None]:
    """config.json has these settings."""
    return lambda folder: write(folder / "config.json", **settings)


def adapter(folder: Path) -> None:
    pickles("adapter_model.bin")(folder)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "evil/repository"}))


OWN_MODEL = configured(model_type="evil", architectures=["M"], auto_map=MODEL)
ELSEWHERE = configured(model_type="evil", auto_map={"AutoConfig": "evil/repository--evil.C"})
KNOWN_WITHOUT_TEXT = configured(model_type="vit", auto_map={"AutoModelForCausalLM": "evil.M"})
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "model": (OWN_MODEL, r"needs Python code of its own for 'evil' \(auto_map in config.json\).*: use a model whose"),
    "model elsewhere": (ELSEWHERE, "needs Python code of its own for 'evil'"),
    "no causal model": (KNOWN_WITHOUT_TEXT, "needs Python code of its own for 'vit'"),
    "pytorch_model.bin": (
        pickles("pytorch_model.bin"),
        r"has its weights as pickles alone \(pytorch_model.bin\).*: convert them, where .* with model.save_pretrained",
    ),
    "shards": (
        pickles("pytorch_model-00001-of-00001.bin", "pytorch_model.bin.index.json"),
        "has its weights as pickles alone .pytorch_model-00001-of-00001.bin",
    ),
    **{
        name: (pickles(name), f"has its weights as pickles alone .{name}")
        for name in ("weights.pt", "weights.pth", "last.ckpt", "m.pkl", "consolidated.00.pth")
    },
    "index of pickles": (shards("pytorch_model.bin"), "names weights that are not safetensors .'pytorch_model.bin'"),
    "index outside": (shards("../target.safetensors"), "names weights outside of itself .'../target.safetensors'"),
    "index deep outside": (shards("a/../../x.safetensors"), "names weights outside of itself"),
    "index absolute": (shards("/x.safetensors"), "names weights outside of itself .'/x.safetensors'"),
    "weights named": (named("adapter_model.bin"), "names weights that are not safetensors .'adapter_model.bin'"),
    "weights named outside": (named("../model.safetensors"), "names weights outside of itself"),
    "a shard that is an index": (
        shards("p.safetensors.index.json"),
        "names weights that are not safetensors .'p.safetensors.index.json'",
    ),
    "other configurations": (configured(configuration_files=["config.5.json"]), "names other configurations"),
    "kernel of the Hub": (configured(_attn_implementation="x/y:evil"), "names an attention kernel of the Hub"),
    "adapter": (adapter, "holds an adapter .*: merge it"),
    "pickled tokenizer": (
        pickles("tokenizer.pkl", tokenizer=True),
        r"has its tokenizer as a pickle alone \(tokenizer.pkl\)",
    ),
    "pickled vocabulary": (
        pickles("vocab.pickle", tokenizer=True),
        r"has its tokenizer as a pickle alone \(vocab.pickle\)",
    ),
}


@pytest.mark.parametrize("role", ["target", "draft"])
@pytest.mark.parametrize("case", REFUSED)
def test_folders_that_would_run_code_are_refused_by_name(
    folder: Path, tiny_folders: Path, case: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused before transformers reads anything in them."""
    change, message = REFUSED[case]
    change(folder)
    if role == "target":
        for auto in ("AutoConfig", "AutoTokenizer", "AutoModelForCausalLM"):
            monkeypatch.delattr(f"reference.model_folders.{auto}")
    with pytest.raises(PairError, match=f"{role} folder .*hostile {message}"):
        load_pair(*(folder if role == one else tiny_folders / one for one in ("target", "draft")))


def test_an_attention_that_the_folder_sets_is_refused_where_another_was_asked_for(folder: Path) -> None:
    configured(auto_map={}, _attn_implementation="eager")(folder)
    with pytest.raises(PairError, match="sets its attention to 'eager', asked for 'sdpa': remove _attn_implementation"):
        load_pair(folder, folder)


def own_tokenizer(folder: Path) -> None:
    """The model is of a type for which transformers has no tokenizer of its own."""
    kind = next(kind for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if kind not in TOKENIZER_MAPPING_NAMES)
    write(folder / "config.json", model_type=kind)
    write(folder / "tokenizer_config.json", tokenizer_class="Evil", auto_map=TOKENIZER)


def test_a_tokenizer_that_needs_python_is_refused(folder: Path, tiny_folders: Path) -> None:
    """transformers has no such tokenizer, neither by its class nor for the model."""
    own_tokenizer(folder)
    with pytest.raises(PairError, match=r"of its own for its tokenizer 'Evil' \(auto_map in tokenizer_config.json\)"):
        load_pair(folder, tiny_folders / "draft")


def known_model(folder: Path) -> None:
    write(folder / "config.json", auto_map=MODEL)


def known_tokenizer(folder: Path) -> None:
    write(folder / "tokenizer_config.json", auto_map=TOKENIZER)


def other_settings(folder: Path) -> None:
    for name in ("generation_config", "processor_config", "preprocessor_config"):
        write(folder / f"{name}.json", auto_map={"AutoProcessor": "evil.T"}, custom_generate="evil")


def told_to_trust(folder: Path) -> None:
    for name in ("config", "tokenizer_config", "generation_config"):
        write(folder / f"{name}.json", trust_remote_code=True, auto_map=MODEL | TOKENIZER)


def pickles_beside(folder: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "tokenizer.pkl", "optimizer.pt"):
        (folder / name).write_bytes(pickle.dumps(Bomb(folder.parent / "marker")))


def linked(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "blob")
    (folder / "model.safetensors").symlink_to(folder.parent / "blob")


@pytest.mark.parametrize(
    "change",
    [known_model, known_tokenizer, other_settings, told_to_trust, pickles_beside, linked],
    ids=lambda f: f.__name__,
)
def test_what_transformers_has_is_loaded_without_the_folders_code(
    folder: Path, tiny_folders: Path, change: Callable[[Path], None]
) -> None:
    """The weights are those of the sound folder, and the classes are transformers' own."""
    change(folder)
    pair = load_pair(folder, tiny_folders / "draft")
    wanted = load_pair(tiny_folders / "target", tiny_folders / "draft")
    assert pair.fingerprint == wanted.fingerprint
    assert all(type(part).__module__.startswith("transformers.") for part in (pair.target, pair.tokenizer))


def test_nobody_is_asked_by_a_loader_inside_a_loader(folder: Path) -> None:
    """Some classes of transformers load parts themselves and do not hand trust_remote_code on, such as RagTokenizer."""
    own_tokenizer(folder)
    with pytest.raises(PairError, match="hostile cannot be loaded .* custom code"), _loading("target", folder):
        AutoTokenizer.from_pretrained(folder)
    assert dynamic_module_utils.TIME_OUT_REMOTE_CODE > 0


@pytest.mark.usefixtures("answers")
def test_a_checkpoint_of_the_training_runs_nothing(tmp_path: Path, marker: Path) -> None:
    torch.save({"step": Bomb(marker)}, tmp_path / "model.pt")
    model = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="model.pt is damaged: remove it"):
        loop.fit(model, lambda step: torch.zeros(()), loop.LearningRates(1), tmp_path / "model.pt")


SAFE = {"torch": ("weights_only", True), "np": ("allow_pickle", False), "numpy": ("allow_pickle", False)}
RUNS_COPIES = ROOT / "examples" / "gallery" / "__main__.py", "exec"
"""The gallery runs functions of files that its user names: that is what it is for."""
UNSAFE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jinja2"}
ROOMS = ("spectheory", "simulate", "reference", "proofs_check", "benchmarks", "examples", "docs", "notebooks")


def calls(tree: ast.AST) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (text before the last dot, name after it, constant keywords) of each call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            owner, name = "", node.func
            if isinstance(node.func, ast.Attribute):
                before, name = node.func.value, node.func.attr
                owner = before.id if isinstance(before, ast.Name) else ast.unparse(before)
            keywords = {k.arg: k.value.value for k in node.keywords if k.arg and isinstance(k.value, ast.Constant)}
            yield owner, name if isinstance(name, str) else ast.unparse(name), keywords


@pytest.mark.parametrize("room", ROOMS)
def test_no_source_reads_files_that_can_run_code(room: str) -> None:
    """One module calls from_pretrained; checkpoints and arrays are read without pickles; nothing is evaluated."""
    for file in sorted((ROOT / room).rglob("*.py")):
        require_harmless(file)


def require_harmless(file: Path) -> None:
    """Check that a source file reads nothing that can run code."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    }
    assert not names & (UNSAFE - {"joblib"} if file.parent.name in ("notebooks", "collecting") else UNSAFE), file
    for owner, name, keywords in calls(tree):
        if name == "from_pretrained" or (owner, name) == ("transformers", "pipeline"):
            assert file == ROOT / "reference" / "model_folders.py"
            assert keywords["trust_remote_code"] is False, file
            assert keywords["local_files_only"] is True, file
            assert "Model" not in owner or keywords["use_safetensors"] is True, file
        if name == "load" and owner in SAFE:
            keyword, value = SAFE[owner]
            assert keywords.get(keyword) is value, f"{file}: {owner}.load without {keyword}={value}"
        evaluated = {("", "eval"), ("", "exec"), ("yaml", "load"), ("yaml", "unsafe_load")}
        assert (owner, name) not in evaluated or (file, name) == RUNS_COPIES, file
        assert (owner, name) not in {("joblib", "load"), ("", "load")} or "joblib" not in names, file
