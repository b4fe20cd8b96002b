"""`python -m benchmarks.gpu` without a GPU: its dry run, what its records say, and how measured ones are found."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import spectheory as st
from benchmarks.gpu import decode, reduce, summary
from benchmarks.gpu.__main__ import app
from benchmarks.gpu.forward import Forward, config_of, random_model
from benchmarks.gpu.place import Place
from benchmarks.gpu.profile import DRY_GRID, MODELS, Grid, file_of, needed_bytes, profile, read
from benchmarks.gpu.train import RECIPE
from reference import combinations
from spectheory.hardware.gpus import gpu
from spectheory.hardware.models import model
from spectheory.hardware.roofline import Roofline
from spectheory.report.markdown import put
from tests.refusals import refuses

DRY = Place.found(dry_run=True)
PAIR: dict[str, Any] = {"target": "llama-3.1-8b", "draft": "llama-3.2-1b"}
H100 = "NVIDIA H100 80GB HBM3"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["gpu", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        app()
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dry profiles of all models."""
    folder = tmp_path_factory.mktemp("profiled")
    for name in MODELS:
        assert profile(name, folder, DRY, DRY_GRID, say=lambda line: None)
    return folder


@pytest.fixture
def as_if(tmp_path: Path) -> Path:
    """Profiles as an H100 would give them whose forwards take 1.25 times the roofline's."""
    grid = Grid(tokens=(1, 16, 64), batches=(1, 8), contexts=(512, 4096))
    for name in PAIR.values():
        data = json.loads(json.dumps({"kind": "gpu-profile", "model": name, "grid": vars(grid), "points": []}))
        data["provenance"] = st.Provenance.now("by hand", seed=0, device=H100).to_dict()
        for batch, context, tokens in grid.points():
            ways = {}
            for way, costs in reduce.WAYS.items():
                place = Roofline(gpu("h100_sxm"), batch=batch, context=context, costs=costs)
                seconds = 1.25 * place.forward_seconds(model(name), [tokens])[0]
                ways[way] = {"median_seconds": seconds, "spread_seconds": 1e-5, "rounds": 15}
            point: dict[str, Any] = {"batch": batch, "context": context, "tokens": tokens}
            lacking = name == PAIR["target"] and (batch, context, tokens) == (8, 4096, 64)
            data["points"].append(point | ({"skipped": "out of memory"} if lacking else ways))
        file_of(tmp_path, name).write_text(json.dumps(data))
    return tmp_path


def test_without_cuda_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for part in ("profile", "train", "compare", "clock"):
        assert run(monkeypatch, part, "--out", tmp_path) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: no CUDA device: torch")
        assert "add --dry-run" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["llama-3.2-1b", "qwen3-8b"])
@pytest.mark.parametrize("tokens", [1, 5])
def test_the_timed_forward_is_that_of_transformers(name: str, tokens: int) -> None:
    place = Place("cpu", "dry run", 1e9)
    ours, stock = (random_model(config_of(name, place), place, 0, kind).float() for kind in ("each_key_once", "sdpa"))
    forward = Forward(ours, 2, 7, tokens, torch.Generator().manual_seed(1))
    from transformers import DynamicCache

    cache = DynamicCache(config=stock.config)
    for layer in range(stock.config.num_hidden_layers):
        keys, values = (states[layer, :, :, :7].clone() for states in forward.states)
        cache.update(keys, values, layer)
    theirs = stock(forward.tokens, past_key_values=cache).logits
    torch.testing.assert_close(forward(), theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(forward(), theirs, rtol=1e-4, atol=1e-5)  # a second run sees the same context


def test_a_dry_profile_holds_every_point(profiled: Path) -> None:
    data = read(file_of(profiled, "qwen3-8b"))
    stamp = data["provenance"]
    assert stamp["seed"] == 0
    assert {"torch", "transformers"} <= set(stamp["versions"])
    assert stamp["device"] == "dry run"
    assert stamp["settings"]["dtype"] == "torch.bfloat16"
    assert [(p["batch"], p["context"], p["tokens"]) for p in data["points"]] == list(DRY_GRID.points())
    for point in data["points"]:
        assert point["launched"]["median_seconds"] > 0
        assert point["launched"]["spread_seconds"] >= 0
        assert point["launched"]["rounds"] == 5


def test_a_profile_goes_on_by_point(tmp_path: Path) -> None:
    said: list[str] = []
    assert not profile("qwen3-0.6b", tmp_path, DRY, DRY_GRID, seconds=0, say=said.append)
    assert said == ["qwen3-0.6b: 8 points are left: run the same command again"]

    def interrupting(line: str) -> None:
        said.append(line)
        if len(said) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile("qwen3-0.6b", tmp_path, DRY, DRY_GRID, say=interrupting)
    before = read(file_of(tmp_path, "qwen3-0.6b"))["points"]
    assert len(before) == 3
    assert profile("qwen3-0.6b", tmp_path, DRY, DRY_GRID, say=said.append)
    after = read(file_of(tmp_path, "qwen3-0.6b"))["points"]
    assert after[:3] == before
    assert len(after) == 8
    assert profile("qwen3-0.6b", tmp_path, DRY, DRY_GRID, say=said.append)
    assert said[-1] == "qwen3-0.6b: all 8 points are measured"
    with pytest.raises(ValueError, match=r"profile-qwen3-0.6b.json was measured with another seed .0, here 1.: give"):
        profile("qwen3-0.6b", tmp_path, DRY, DRY_GRID, seed=1)
    refuses("model must be one of llama-3.1-8b, .* got 'gpt2'", profile, "gpt2", tmp_path, DRY, DRY_GRID)


def test_what_does_not_fit_is_skipped_and_said(tmp_path: Path) -> None:
    place = Place("cpu", "dry run", needed_bytes(config_of("qwen3-8b", DRY), 2, 8, 3) / 0.95)
    assert profile("qwen3-8b", tmp_path, place, DRY_GRID, say=lambda line: None)
    points = read(file_of(tmp_path, "qwen3-8b"))["points"]
    skipped = [(p["batch"], p["context"], p["tokens"]) for p in points if "skipped" in p]
    assert (2, 16, 3) in skipped
    assert (2, 8, 3) not in skipped
    assert "needs 0.0 GB, dry run has 0.0 GB" in points[-1]["skipped"]
    real = json.loads((Path(st.__file__).parent / "data" / "models" / "llama-3.1-8b.json").read_text())
    assert needed_bytes(real, 1, 4096, 1) == pytest.approx(16.06e9 + 4097 * 131072 + 0.5e6, rel=1e-3)


def test_dry_records_answer_for_no_gpu(profiled: Path, tmp_path: Path) -> None:
    paths = reduce.write(profiled, tmp_path)
    assert len(paths) == 4
    assert all(path.relative_to(tmp_path).parts[0] == "dry_run" for path in paths)
    latency = st.Latency.measured(gpu="dry run", **PAIR, batch=2, folder=tmp_path)
    assert latency.tokens.tolist() == [1, 3]
    assert latency.contexts.tolist() == [8, 16]
    assert latency.provenance.settings["target_roofline_error"] == "no such GPU is known"


def test_records_state_the_rooflines_error(as_if: Path, tmp_path: Path) -> None:
    assert len(reduce.write(as_if, tmp_path / "latency")) == 2
    one, eight = (
        st.Latency.measured(gpu=name, **PAIR, batch=batch, folder=tmp_path / "latency")
        for name, batch in (("h100_sxm", 1), (H100, 8))
    )
    bare = reduce.WAYS["graph"]
    computed = st.Latency.roofline(gpu="h100_sxm", **PAIR, batch=8, context=4096, engine="hf", costs=bare)
    assert eight.target(16, 4096) == pytest.approx(1.25 * computed.target(16, 4096))
    assert eight.draft(1, 4096) == pytest.approx(1.25 * computed.draft(1, 4096))
    assert (one.tokens.tolist(), eight.tokens.tolist()) == ([1, 16, 64], [1, 16])  # 64 did not fit
    assert eight.overhead_seconds == computed.overhead_seconds > one.overhead_seconds
    facts = one.provenance.facts
    assert str(facts["target_roofline_error"]).startswith("median -20.0%, worst -20.0% at ")
    assert (facts["batch"], facts["graph_share"]) == (1, "100% of the target's points")
    one_target = read(file_of(as_if, PAIR["target"]))
    other = json.loads(json.dumps(one_target))
    other["provenance"]["device"] = "NVIDIA H200"
    with pytest.raises(ValueError, match="must have the same device, got NVIDIA H100 80GB HBM3 and NVIDIA H200"):
        list(reduce.of_pair(one_target, other))


def test_a_record_that_was_not_measured_is_refused(as_if: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no measured record for gpu='h100_sxm', .*: there are none; measure with "):
        st.Latency.measured(gpu="h100_sxm", **PAIR)
    reduce.write(as_if, tmp_path)
    with pytest.raises(ValueError, match="are h100_sxm/llama-3.1-8b/.*/batch-1.json, .*batch-8.json; measure "):
        st.Latency.measured(gpu="h100_sxm", **PAIR, batch=4, folder=tmp_path)
    (tmp_path / "h100_sxm" / PAIR["target"] / PAIR["draft"] / "batch-8.json").write_text("{")
    with pytest.raises(st.RecordError, match=r"batch-8.json is damaged: not JSON"):
        st.Latency.measured(gpu="h100_sxm", **PAIR, batch=8, folder=tmp_path)


def test_the_page_shows_the_committed_records() -> None:
    text = summary.summary(Path("benchmarks/gpu/h200"))
    assert text in Path("docs/results.md").read_text(encoding="utf-8")
    assert "Measured on NVIDIA H200." in text


def test_no_dry_record_ships() -> None:
    shipped = Path(st.__file__).parent / "data" / "latency"
    for path in shipped.rglob("*.json"):
        latency = st.Latency.load(path)
        gpu(str(latency.provenance.device))
        assert "roofline_error" in " ".join(latency.provenance.settings)


def test_the_larger_pair_has_the_sizes_it_should() -> None:
    from reference.train.pair import new_model

    with torch.device("meta"):
        sizes = [new_model(shape, RECIPE).num_parameters() / 1e6 for shape in (RECIPE.target, RECIPE.draft)]
    assert np.round(sizes).tolist() == [98, 8]


def test_the_larger_pair_is_trained_compared_and_clocked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With every eighth verifier, as test_matrix.py compares with all of them, and with few files and prompts."""
    monkeypatch.setattr(combinations, "VERIFIERS", combinations.VERIFIERS[::8])
    for part in ("train", "decode"):
        monkeypatch.setattr(f"benchmarks.gpu.{part}.DRY_PACKAGE", "email/mime/")
    monkeypatch.setattr(decode, "DRY_SIZES", replace(decode.DRY_SIZES, decoded=1))
    out, place = tmp_path / "out", ["--work", tmp_path / "work", "--dry-run"]
    refuses("holds no record of python -m benchmarks.gpu", summary.summary, out)
    for part in ("train", "compare", "clock"):
        assert run(monkeypatch, part, "--out", out, *place) == 0, capsys.readouterr().err
    trained, compared, clocked = (
        json.loads((out / f"{name}.json").read_text()) for name in ("train", "compare", "clock-1")
    )
    for record in (trained, compared, clocked):
        assert record["provenance"]["device"] == "dry run"
        assert record["provenance"]["seed"] == 0
        assert {"torch", "transformers"} <= set(record["provenance"]["versions"])
    assert 0 < trained["held_out_overlap"] < 1
    assert compared["left"] == 0
    assert {row["temperature"] for row in compared["rows"]} == {0.0, 1.0}
    assert all(abs(row["z"]) < 6 for row in compared["rows"] if row["z"] is not None)
    assert clocked["decoders"][0] == "HF plain"
    for part, before in (("train", trained), ("compare", compared), ("clock", clocked)):  # nothing is left to do
        assert run(monkeypatch, part, "--out", out, *place) == 0
        after = json.loads((out / ("clock-1.json" if part == "clock" else f"{part}.json")).read_text())
        volatile = {"provenance", "seconds_of_last_call"}
        assert {k: v for k, v in after.items() if k not in volatile} == {
            k: v for k, v in before.items() if k not in volatile
        }
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gpu summary -->\nold\n<!-- end of gpu summary -->\nafter\n")
    assert run(monkeypatch, "summary", out, "--page", page) == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "\nold\n" not in text
    assert text.count("**Dry run on a CPU: the numbers mean nothing.**") == 4
    for heading in ("The larger pair", "Predicted against measured", "Wall clock at temperature 1"):
        assert f"### {heading}\n" in text


def test_the_summary_of_profiles(as_if: Path, tmp_path: Path) -> None:
    text = summary.summary(as_if)
    assert f"Measured on {H100}." in text
    assert "median -20.0%, worst -20.0% at " in text
    assert "| llama-3.1-8b with llama-3.2-1b | 8 | 512 |" in text
    assert "| 8 | 5 of 6 |" in text
    (tmp_path / "page.md").write_text("no place")
    refuses("page.md must have the lines <!-- gpu summary -->", put, tmp_path / "page.md", "gpu summary", text)


def test_the_page_of_results_has_the_place() -> None:
    page = (Path(__file__).parents[2] / "docs" / "results.md").read_text()
    assert page.index("<!-- gpu summary -->") < page.index("<!-- end of gpu summary -->")
