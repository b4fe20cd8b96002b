"""Tests of the commands `spectheory head inspect` and `spectheory head convert`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reference.heads import HeadConfig, read_head, write_head
from tests.command_line import Run, refused, run  # noqa: F401
from tests.reference.head_folders import same
from tests.reference.tiny_heads import EAGLE1, EAGLE3, EAGLE31, MTP, PARALLEL, random_head


@pytest.fixture
def heads(run: Run) -> None:  # noqa: F811
    """Folders `three`, `one` and `newer` in the working directory."""
    write_head(random_head(replace(EAGLE3, target="some/target")), "three", "sglang")
    write_head(random_head(EAGLE1), "one", "eagle")
    write_head(random_head(EAGLE31), "newer", "speculators")


@pytest.mark.usefixtures("heads")
def test_inspect_says_what_a_head_is(run: Run) -> None:  # noqa: F811
    result = run("head", "inspect", "three")
    assert result.exit_code == 0
    for said in (
        "head        eagle3, with its own embeddings",
        "layout      sglang",
        "target      some/target: 32 wide, 40 tokens",
        "reads       the inputs of layers 2, n // 2, n - 3 of n",
        "drafts      24 tokens",
        "layer       32 wide, MLP 48, heads 4 and 2 of 8",
        "parameters  14,976 in float32",
    ):
        assert said in result.stdout.splitlines()
    assert "reads       the last hidden state of the target" in run("head", "inspect", "one").stdout
    newer = run("head", "inspect", "newer").stdout
    assert "eagle3, fc_norm, norm_output" in newer
    assert "target      not named" in newer
    assert "reads       the inputs of layers 1, 2, 3\n" in newer


@pytest.mark.usefixtures("heads")
def test_inspect_as_json(run: Run) -> None:  # noqa: F811
    found = json.loads(run("head", "inspect", "three", "--json").stdout)
    assert (found["layout"], found["kind"], found["parameters"]) == ("sglang", "eagle3", 14_976)
    assert found["tensors"]["midlayer.self_attn.q_proj.weight"] == [32, 64]
    parameters = read_head("three").parameters()
    assert found["parameters"] == sum(parameter.numel() for parameter in parameters)


@pytest.mark.usefixtures("heads")
def test_convert_writes_another_layout(run: Run) -> None:  # noqa: F811
    result = run("head", "convert", "three", "--to", "speculators", "--out", "new")
    assert result.exit_code == 0
    assert "wrote new/model.safetensors" in result.stdout
    assert json.loads(Path("new/config.json").read_text())["speculators_config"]["verifier"]["name_or_path"] == (
        "some/target"
    )
    refused(run("head", "convert", "newer", "--to", "sglang", "--out", "new"), "new/config.json exists")
    assert run("head", "convert", "newer", "--to", "sglang", "--out", "new", "--force").exit_code == 0
    assert json.loads(run("head", "inspect", "new", "--json").stdout)["layers"] == [1, 2, 3]


@pytest.mark.parametrize("config", [MTP, PARALLEL], ids=["mtp", "parallel"])
def test_heads_that_no_other_library_has_are_kept_in_the_layout_of_this_one(run: Run, config: HeadConfig) -> None:  # noqa: F811
    write_head(random_head(config), "ours", "spectheory")
    found = run("head", "inspect", "ours").stdout
    assert f"head        {config.kind}, with its own embeddings" in found
    assert "layout      spectheory" in found
    assert "reads       the last hidden state of the target" in found
    assert ("drafts      all tokens, 4 deep in one forward" in found) == (config.kind == "parallel")
    assert run("head", "convert", "ours", "--to", "spectheory", "--out", "copy").exit_code == 0
    assert same(read_head("copy"), random_head(config))
    for layout in ("speculators", "sglang", "eagle"):
        words = f"the layout {layout} cannot express a head of kind {config.kind}"
        refused(run("head", "convert", "ours", "--to", layout, "--out", "other"), words)
    assert not Path("other").exists()


@pytest.mark.usefixtures("heads")
def test_what_cannot_be_written_or_read_is_refused_in_one_line(run: Run) -> None:  # noqa: F811
    refused(
        run("head", "convert", "one", "--to", "speculators", "--out", "new"),
        "the layout speculators cannot express a head of kind eagle1",
    )
    refused(run("head", "convert", "newer", "--to", "eagle", "--out", "new"), "cannot express fc_norm=True")
    refused(run("head", "convert", "three", "--to", "eagle", "--out", "three"), "is another file of this command")
    refused(run("head", "inspect", "none"), "there is no file none/config.json")
    assert not Path("new").exists()
