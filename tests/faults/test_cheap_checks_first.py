"""What can be checked without models is checked before a model is loaded, and before a file is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import spectheory as st
from reference.losses import loss_of
from reference.train.head import HeadRecipe
from spectheory.cli import replaying
from spectheory.cli.options import PairOptions
from spectheory.core.json_values import to_json
from spectheory.core.provenance import Provenance
from tests.command_line import Run, refused
from tests.refusals import refuses

PAIR_COMMANDS = {
    "trace": ("--out", "new"),
    "decode": ("--plan", "plan.json", "--out", "new/tally.json"),
    "clock": ("--plan", "plan.json", "--out", "new/clock.json"),
    "matrix": ("--out", "new"),
    "profile": ("--out", "new/latency.json"),
    "generate": ("text", "--plan", "plan.json"),
    "demo": ("--out", "new"),
}
PROMPTS = [
    ("--prompts", "absent.jsonl", "prompts file absent.jsonl does not exist"),
    ("--prompts", ".", "prompts file . is a folder"),
    ("--prompts", "bad.jsonl", "bad.jsonl, line 1 is not a JSON object"),
    ("--count", 0, "--count must be at least 1, got 0"),
    ("--count", 1_000_000, "prompts must be between 1 and"),
    ("--skip", 1_000_000, "skip must be between"),
    ("--prompt-tokens", 0, "--prompt-tokens must be at least 1, got 0"),
]
SAMPLING = [
    ("--temperature", -1, "temperature must be"),
    ("--temperature", "nan", "temperature must be"),
    ("--top-k", 0, "top_k must be"),
    ("--top-p", 2, "top_p must be"),
    ("--top-p", 0.5, "no effect at temperature 0"),
]
CASES = [
    *((command, *case) for command in ("trace", "decode", "clock", "matrix") for case in PROMPTS),
    *((command, *case) for command in ("trace", "decode", "clock", "profile", "generate") for case in SAMPLING),
    *(
        (command, "--new-tokens", 0, "must be at least")
        for command in ("trace", "decode", "clock", "matrix", "generate")
    ),
    ("trace", "--candidates", 0, "candidates must be at least 1, got 0"),
    ("trace", "--batch", 0, "batch must be at least 1, got 0"),
    ("clock", "--rounds", 0, "rounds must be at least 1, got 0"),
    ("profile", "--rounds", 0, "rounds must be at least 1, got 0"),
    ("profile", "--contexts", "0,5", "contexts must be increasing whole numbers"),
    ("profile", "--largest", 0, "--largest must be at least 1, got 0"),
    ("matrix", "--temperatures", "0,-1", "temperature must be"),
    ("matrix", "--temperatures", "a", "--temperatures must be numbers"),
    ("matrix", "--only", "no such verifier", "no combination's name contains --only 'no such verifier'"),
    ("generate", "--plan", "absent.json", "there is no file absent.json"),
    ("decode", "--plan", "absent.json", "there is no file absent.json"),
    ("clock", "--plan", "absent.json", "there is no file absent.json"),
]


@pytest.fixture
def no_models(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run commands in a folder with a plan, where no model can be loaded."""
    st.plan(st.Acceptance.by_rank([0.6]), st.Latency.constant(draft_seconds=0.1), max_budget=2).save("plan.json")
    Path("bad.jsonl").write_text("no object\n")

    def load(self: PairOptions) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(PairOptions, "load", load)
    return run


@pytest.mark.parametrize(("command", "option", "value", "said"), CASES)
def test_an_option_is_checked_before_models_are_loaded(
    no_models: Run, command: str, option: str, value: object, said: str
) -> None:
    before = set(Path().rglob("*"))
    given = {"--skip": 0} if option == "--count" and command != "matrix" else {}
    extra = [part for pair in given.items() for part in pair]
    refused(no_models(command, *PAIR_COMMANDS[command], *extra, option, value), said)
    assert set(Path().rglob("*")) - before <= {Path("new")}


@pytest.mark.parametrize("command", [name for name in PAIR_COMMANDS if name != "generate"])
def test_an_output_is_checked_before_models_are_loaded(no_models: Run, command: str) -> None:
    """Its folder is a file, in which not even the superuser can write."""
    Path("new").write_text("mine")
    refused(no_models(command, *PAIR_COMMANDS[command]), "new")
    assert Path("new").read_text() == "mine"


@pytest.mark.parametrize("engine", ["vllm@9.9", "vllm,sglang@0", "aiperf", "@1", "vllm,,sglang"])
def test_an_engine_and_its_version_are_checked_before_the_plan(plan: Run, engine: str) -> None:
    before = set(Path().rglob("*"))
    result = plan("--latency", "latency.json", "--out", "p.json", "--engine", engine)
    refused(result, "--engine: ")
    assert set(Path().rglob("*")) == before


JUDGED = ("head", "evaluate", "--out", "new")
BOTH = ("--group", "a=shipped", "--group", "b=shipped")
TEXTS = ("train", "texts", "--out", "new")
HEAD = ("train", "head", "--out", "new", "--texts", "texts", "--loss")
LATER = [
    ((*JUDGED, "--group", "shipped"), "group must be a name with its folders"),
    ((*JUDGED, "--group", "a=shipped"), "groups must be at least two, got 1"),
    ((*JUDGED, "--group", "a=shipped", "--group", "b=absent"), "group b has no folder 'absent': check the path"),
    ((*JUDGED, *BOTH, "--baseline", "c"), "--baseline must be one of a, b, got 'c'"),
    ((*JUDGED, *BOTH, "--search", "no such"), "no such"),
    ((*JUDGED, *BOTH, "--tree", "absent.json"), "there is no file absent.json"),
    ((*JUDGED, *BOTH, "--verifier", "SpecTr"), "--verifier must be left out for greedy text"),
    ((*JUDGED, *BOTH, "--temperature", "1", "--verifier", "none"), "verifier must be one of Greedy, "),
    ((*JUDGED, *BOTH, "--count", 0), "--count must be at least 1, got 0"),
    ((*TEXTS, "--corpus", "bad.jsonl"), "bad.jsonl, line 1 is not a JSON object"),
    ((*TEXTS, "--share", "2/2"), "share must be k/n"),
    ((*TEXTS, "--temperatures", "0,-1"), "temperature must be"),
    (("train", "texts", "--out", "plan.json"), "plan.json is not a folder"),
    ((*HEAD, "no such"), "no such"),
    ((*HEAD, "eagle3"), "texts holds no texts of a target"),
]


@pytest.mark.parametrize(("arguments", "said"), LATER, ids=lambda one: "-".join(map(str, one))[-60:])
def test_heads_and_texts_are_checked_before_models_are_loaded(
    no_models: Run, arguments: tuple[object, ...], said: str
) -> None:
    before = set(Path().rglob("*"))
    refused(no_models(*arguments), said)
    assert set(Path().rglob("*")) == before


def test_a_tree_is_read_before_the_texts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of a trace above temperature 0 need both models."""

    def texts_in(*_: object) -> None:
        raise AssertionError("the texts are read")

    monkeypatch.setattr(replaying, "_texts_in", texts_in)
    Path("tree.json").write_text("[-1, 0, 7]")
    refused(run("replay", "trace", "--tree", "tree.json"), "tree.json must hold a parent array")


def test_a_selector_is_checked_before_its_labels(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_trace(*_: object) -> None:
        raise AssertionError("the models of the trace are loaded")

    monkeypatch.setattr("reference.judging.HeldOutTexts.of_trace", of_trace)
    st.Latency.constant(draft_seconds=0.1).save("latency.json")
    Path("trace").mkdir()
    stamp = Provenance("spectheory trace", temperature=1.0)
    Path("trace/provenance.json").write_text(to_json(stamp.to_dict()))
    asked = ("train", "selector", "--trace", "trace", "--latency", "latency.json")
    refused(run(*asked, "--out", "new", "--trace", "trace"), "labels must be of different samplings")
    Path("greedy").mkdir()
    Path("greedy/provenance.json").write_text(to_json(Provenance("spectheory trace", temperature=0.0).to_dict()))
    refused(run(*asked, "--out", "new", "--trace", "greedy"), "temperature of the texts must be above 0, got 0")
    refused(run(*asked, "--out", "latency.json"), "latency.json is not a folder")
    refused(run(*asked, "--out", "new", "--verifier", "none"), "none")
    assert not Path("new").exists()


@pytest.mark.parametrize("command", ["train texts", "train head", "train selector", "decode", "certify"])
def test_a_seed_fits_every_generator(run: Run, command: str) -> None:
    """Torch takes no larger ones. The option is checked with the others, before those that are missing."""
    result = run(*command.split(), *(["Naive"] if command == "certify" else []), "--seed", 2**63)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert f"{2**63 - 1}" in result.stderr or "Missing option" in result.stderr
    refuses("seed must be between 0 and 9,223,372,036,854,775,807", HeadRecipe, loss_of("eagle"), seed=2**63)
