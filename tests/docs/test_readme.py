"""The Python examples and the command lines of the README and of the pages in docs run."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import spectheory
from reference.library_sources import standard_library
from reference.model_folders import ModelFiles
from reference.models import TARGET
from spectheory.cli.listing import SAMPLES

ROOT = Path(__file__).parents[2]
OUTPUTS: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "generate_outputs.py"))
PAGES = {
    name: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if (name := path.relative_to(ROOT).as_posix()) not in OUTPUTS["NOT_RUN"]
}
FEWER = {
    "spectheory trace --out trace": " --count 12 --new-tokens 64",
    "spectheory trace": " --count 4 --new-tokens 32",
    "spectheory profile": " --rounds 1 --largest 4 --contexts 64",
    "spectheory plan --acceptance sampled/acceptance.json": " --max-budget 8",
    "spectheory decode": " --count 2 --new-tokens 16",
    "spectheory schedule --acceptance trace/acceptance.json": " --batch 1:8 --max-budget 16",
    "spectheory schedule --acceptance": " --batch 1:8",
    "spectheory serve --schedule": " --load poisson:24,count=200,prompt=512,output=128",
    "spectheory certify spectheory.otlp:SpecTr": " --shape 2 --cases 5",
    "spectheory certify Traversal": " --shape 2 --cases 5",
    "spectheory certify spectheory.verify:Traversal": " --cases 5",
}
"""Options added to the slowest commands, so that they run on less data; `make test-deep` runs them as documented."""
FEWER_CASES = {
    "policies=[Levels((1,))])": "policies=[Levels((1,))], cases=5)",
    "policies=[Levels((1,)), Levels((1, 1))], cases=20": "policies=[Levels((1,)), Levels((1, 1))], cases=5",
    "SpecInfer(), cases=60": "SpecInfer(), policies=[st.Levels((2,)), st.Levels((1, 1))], cases=5",
    "Traversal(), cases=30": "Traversal(), policies=[st.Levels((2,)), st.Levels((1, 1))], cases=5",
    "Block(), cases=20": "Block(), policies=[st.Levels((1, 1))], cases=5",
}
"""In the examples in Python, the same for calls that certify."""
LAYERS = {"docs/questions/identical.md": 18, "docs/replay.md": 18, "docs/quickstart.md": 10, "docs/heads.md": 7}
"""How many of the target's layers a page needs if it needs more than four: for the texts in the samples, for a target
that is slow beside the draft, or for a head that reads three different layers."""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)


def fewer_or_all(fewer: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "fewer", [pytest.param(fewer, id="fewer"), pytest.param({}, id="all", marks=pytest.mark.deep)]
    )


@pytest.fixture
def prepared(page: str, fewer: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working folder is empty. Fewer data have a small corpus, and a target with its first two and its
    last layers alone; the shipped drafts still suit it."""
    monkeypatch.chdir(tmp_path)

    load = ModelFiles.load

    def loaded(files: ModelFiles) -> Any:
        model: Any = load(files)
        if files.folder == TARGET:
            layers = model.model.layers
            del layers[2 : 2 - LAYERS.get(page, 4)]
            for index, layer in enumerate(layers):
                layer.self_attn.layer_idx = index
            model.config.num_hidden_layers = len(layers)
        return model

    if fewer:
        monkeypatch.setattr(ModelFiles, "load", loaded)
        small = [file for file in standard_library() if file.name.startswith("json/")]
        monkeypatch.setattr("reference.prompts.standard_library", lambda: small)


@fewer_or_all(FEWER_CASES)
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
@pytest.mark.usefixtures("prepared")
def test_the_python_examples_run(
    page: str, fewer: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They print what the page shows."""
    examples = OUTPUTS["script"](PAGES[page])
    for written, run in fewer.items():
        examples = examples.replace(written, run)
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    script = tmp_path / "examples.py"
    script.write_text(examples)
    runpy.run_path(str(script))
    filled = OUTPUTS["with_printed"](PAGES[page], capsys.readouterr().out)
    assert filled == PAGES[page], f"run python docs/generate_outputs.py {page}"


@fewer_or_all(FEWER)
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")])
@pytest.mark.usefixtures("prepared")
def test_the_command_lines_run(page: str, fewer: dict[str, str], request: pytest.FixtureRequest) -> None:
    """In one folder and in the order of the page, with the documented exit status and the output that the page shows.

    With fewer data, code is certified in this process outside its own page.
    """
    if fewer and page != "docs/certify.md":
        request.getfixturevalue("no_child")

    def output(line: str, is_shown: bool) -> str:
        command, _, status = line.partition(" || test $? = ")
        if not is_shown:
            command += next((options for start, options in fewer.items() if command.startswith(start)), "")
        done, printed = OUTPUTS["run"](command)
        if "at least one drafted node, got the root alone" not in printed:  # on a busy machine the plan can be "off"
            assert done == int(status or 0), f"{line}\n{printed}"
        return printed

    filled = OUTPUTS["filled"](PAGES[page], output)
    assert filled == PAGES[page], f"run python docs/generate_outputs.py {page}"


def test_the_installed_command_starts() -> None:
    command = Path(sys.executable).with_name("spectheory")
    done = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"{spectheory.__version__}\n"
