"""The Python examples and the command lines of the README and of the pages in docs run."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import spectheory
from reference.library_sources import standard_library
from reference.model_folders import load_folder
from reference.models import TARGET
from spectheory.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    *(
        f"docs/{page}.md"
        for page in (
            "calibrate",
            "certify",
            "certify_ci",
            "choosing",
            "decoder",
            "drafter",
            "explore",
            "heads",
            "index",
            "pictures",
            "quickstart",
            "replay",
            "request_classes",
        )
    ),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/questions/*.md")),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/engines/*.md")),
    *(
        f"docs/tutorials/{path.name}"
        for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))
        if path.stem != "index"
    ),
]
SAMPLES = ROOT / "docs" / "samples"
"""Files that the pages in docs/questions and docs/engines read."""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


FEWER = {
    "spectheory trace --out trace --count": " --count 4 --new-tokens 32",
    "spectheory trace --out trace": " --count 12 --new-tokens 64",
    "spectheory trace": " --count 4 --new-tokens 32",
    "spectheory profile": " --rounds 1 --largest 4 --contexts 64",
    "spectheory plan --acceptance sampled/acceptance.json": " --max-budget 8",
    "spectheory decode": " --count 2 --new-tokens 16",
    "spectheory schedule --acceptance trace/acceptance.json": " --batch 1:8 --max-budget 16",
    "spectheory schedule --acceptance 0": " --batch 1:8",
    "spectheory schedule --acceptance served.json": " --batch 1:8",
    "spectheory serve --schedule": " --load poisson:24,count=200,prompt=512,output=128",
    "spectheory certify spectheory.otlp:SpecTr": " --shape 2 --cases 5",
    "spectheory certify spectheory.verify:Traversal": " --cases 5",
    "spectheory certify spectheory.certify.zoo.published:spectr_gbv": " --cases 5",
    "spectheory certify Traversal": " --shape 2 --cases 5",
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


def fewer_or_all(fewer: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "fewer", [pytest.param(fewer, id="fewer"), pytest.param({}, id="all", marks=pytest.mark.deep)]
    )


LAYERS = {"docs/questions/identical.md": 18, "docs/replay.md": 18, "docs/quickstart.md": 10, "docs/heads.md": 7}
"""How many of the target's layers a page needs if it needs more than four.

Texts in docs/samples are those of the whole target. A draft is planned only if the target is slow beside the draft. An
EAGLE-3 head reads three different layers of seven or more.
"""


def fewer_layers(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped target is loaded with its first two and its last layers alone; the shipped drafts still suit it."""

    def loaded(role: str, folder: Path, *place: Any) -> tuple[Any, Any]:
        model, tokenizer = load_folder(role, folder, *place)
        if folder == TARGET:
            layers = model.model.layers
            del layers[2 : 2 - LAYERS.get(page, 4)]
            for index, layer in enumerate(layers):
                layer.self_attn.layer_idx = index
            model.config.num_hidden_layers = len(layers)
        return model, tokenizer

    monkeypatch.setattr("reference.models.load_folder", loaded)


@fewer_or_all(FEWER_CASES)
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_the_python_examples_run(
    page: str, fewer: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fewer:
        fewer_layers(page, monkeypatch)
    examples = "\n".join(blocks(page, "python"))
    for written, run in fewer.items():
        examples = examples.replace(written, run)
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "examples.py"
    script.write_text(examples)
    runpy.run_path(str(script))


@fewer_or_all(FEWER)
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")])
def test_the_command_lines_run(
    page: str, fewer: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """In one folder and in the order of the page, with the documented exit status.

    Fewer data have a small corpus and a small target too, and code is certified in this process outside its own page.
    """
    if fewer:
        fewer_layers(page, monkeypatch)
        if page != "docs/certify.md":
            request.getfixturevalue("no_child")
        small = [file for file in standard_library() if file.name.startswith("json/")]
        monkeypatch.setattr("reference.prompts.standard_library", lambda: small)
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    console = [line for block in blocks(page, "console") for line in block.splitlines()]
    lines = [line[2:] for line in console if line.startswith(("$ spectheory", "$ echo"))]
    assert lines
    for line in lines:
        command, _, status = line.partition(" || test $? = ")
        if command.startswith("echo"):
            subprocess.run(command, shell=True, check=True)
            continue
        command += next((options for start, options in fewer.items() if command.startswith(start)), "")
        done = CliRunner().invoke(app, shlex.split(command)[1:])
        assert done.exit_code == int(status or 0), f"{line}\n{done.output}"


def test_the_installed_command_starts() -> None:
    command = Path(sys.executable).with_name("spectheory")
    done = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert done.stdout == f"{spectheory.__version__}\n"


def test_the_two_commands_are_those_of_the_makefile() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = re.findall(r"make (\w+)", (ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(shown) <= set(targets)
