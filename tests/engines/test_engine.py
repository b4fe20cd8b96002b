"""The engines by name, and a plan exported to one of them from Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import spectheory as st
from spectheory.engines import ALL, Engine, Export
from tests.command_line import Run
from tests.helpers import install_toy, refuses

RATES = st.Acceptance.by_rank([0.6, 0.15, 0.06])
TIMES = replace(st.Latency.constant(draft_seconds=0.1), provenance=st.Provenance.now("test", draft="my/draft", batch=2))
PLAN = st.plan(RATES, TIMES, max_budget=12)
TOY = """
from spectheory.engines import Engine, Export, Reader, Run, Statistics
from spectheory.engines.benchmark_file import BenchmarkFormat

def export(fitting, version):
    return Export("Toy", version, ("--draft", fitting.model, "--length", str(fitting.chain)), {"toy.txt": "plan"})

def read(text, min_trials):
    return Statistics(None, float(text), assumed=("a toy",))

def run(entry, conditions):
    return Run("plain", 1, 0, entry.positive("toy_seconds"))

FORMATS = {"toy-bench": BenchmarkFormat(("toy_seconds",), run)}
ENGINE = Engine("toy", "Toy", {"1": None, "2": None}, 1, export, {"toy-tau": Reader(read)}, benchmarks=FORMATS)
"""


def test_names_are_unique_and_a_report_is_called_after_its_engine() -> None:
    assert st.engines.names() == [engine.name for engine in ALL]
    assert len(set(st.engines.names())) == len({engine.title for engine in ALL}) == len(ALL)
    assert all(name.startswith(f"{each.name}-") for each in ALL for name in (*each.readers, *each.benchmarks))
    assert all(st.engines.engine(engine.name) is engine for engine in ALL)
    assert st.engines.timed_engine("vllm-log") == "vllm"


@pytest.mark.parametrize("engine", [engine for engine in ALL if engine.exporter], ids=lambda engine: engine.name)
def test_every_engine_exports_a_plan_or_says_why_not(engine: Engine) -> None:
    """An engine that drafts for one sequence refuses the plan of batch size 2, one for EAGLE-3 another draft."""
    one = st.plan(RATES, replace(TIMES, provenance=TIMES.provenance.replace(batch=1)), max_budget=12)
    made = st.export(one, engine.name, draft="my/eagle3" if engine.name == "trtllm" else None)
    assert (made.engine, made.version.lstrip("b")) == (engine.title, list(engine.versions)[-1])
    assert made.args or made.files
    assert "predicted" in made.notes[0]


def test_a_plan_is_exported_as_the_schedule_of_its_batch_size() -> None:
    planned = st.schedule(RATES, lambda _: TIMES, [2], context=PLAN.context, max_budget=12)
    for name in ("vllm", "sglang", "eagle", "llama.cpp"):
        assert st.export(PLAN, name) == st.export(planned, name, draft="my/draft")
    nothing = st.export(st.plan(RATES, st.Latency.constant(draft_seconds=9.0)), "llama.cpp", draft="d")
    assert (nothing.args, nothing.files) == (("--spec-type", "none"), {})
    assert nothing.notes == ("no chain beats plain decoding at batch size 1: start it without speculation",)


def test_the_draft_and_the_target_are_those_of_the_provenance_or_as_given() -> None:
    assert "my/draft" in st.export(PLAN, "vllm").command
    assert "meta-llama/Llama-3.2-1B" in st.export(PLAN, "vllm", draft="llama-3.2-1b").command
    plain = st.export(PLAN, "trtllm", draft="my/eagle3")
    latent = st.export(PLAN, "trtllm", draft="my/eagle3", target="deepseek-v3")
    note = "multi-head latent attention, such as deepseek-v3"
    assert note in " ".join(latent.notes)
    assert note not in " ".join(plain.notes)
    stamp = TIMES.provenance.replace(target="deepseek-v3")
    named = st.plan(RATES, replace(TIMES, provenance=stamp), max_budget=12)
    assert st.export(named, "trtllm", draft="my/eagle3") == latent


def test_what_cannot_be_exported_is_refused() -> None:
    refuses("draft must be a repository or the path of a file, got 'aa", st.export, PLAN, "vllm", draft="a" * 300)
    refuses("unknown engine 'vlm': did you mean vllm", st.export, PLAN, "vlm")
    refuses("plans cannot be exported to Read, only its reports can be read", Engine("read", "Read").release)
    refuses(r"version must be a version of vLLM .* \(0.24 to 0.33\)", st.export, PLAN, "vllm", version="0.9")
    refuses("it drafts only at batch size 1, the plan starts at 2", st.export, PLAN, "hf")
    refuses("does not name the draft model: name it with the argument", st.export, PLAN, "vllm", draft="")
    refuses("unknown model 'llama-9': did you mean", st.export, PLAN, "vllm", target="llama-9")


def test_files_are_written_and_replaced_only_when_told(tmp_path: Path) -> None:
    made, other = (Export("Toy", "1", files={"a.txt": text, "b.txt": text}) for text in ("one\n", "two\n"))
    folder = tmp_path / "new"
    assert made.write(folder) == (folder / "a.txt", folder / "b.txt")
    (folder / "a.txt").unlink()
    refuses(r"b.txt exists: give another folder or overwrite=True", other.write, folder)
    assert not (folder / "a.txt").exists(), "all are checked before the first is written"
    other.write(str(folder), overwrite=True)
    assert {path.read_text() for path in folder.iterdir()} == {"two\n"}


def test_an_engine_of_another_package_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Run
) -> None:
    install_toy(tmp_path, monkeypatch, TOY, engines="ENGINE")
    assert st.engines.names() == [*(engine.name for engine in ALL), "toy"]
    assert st.engines.report_names()[-1] == "toy-tau"
    made = st.export(PLAN, "toy", version="v1.4")
    assert made.command == f"--draft my/draft --length {PLAN.chain.tree.budget}"
    assert made.version == "1"
    assert st.read_report("2.5", "toy-tau").tau == 2.5
    (tmp_path / "bench.json").write_text('{"toy_seconds": 0.5}')
    assert st.engines.read_runs(tmp_path / "bench.json").runs == (st.engines.Run("plain", 1, 0, 0.5),)
    TIMES.save("times.json")
    result = plan("--latency", "times.json", "--engine", "toy@1,vllm", "--out", "here/plan.json")
    assert result.exit_code == 0, result.output
    assert "Toy 1:\n  --draft my/draft --length " in result.stdout
    assert Path("here/toy.txt").read_text() == "plan"
