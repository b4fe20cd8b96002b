"""The command line from trace to comparison, its exit statuses and its one-line errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

import spectheory as st
from reference.library_sources import standard_library
from spectheory.cli import app

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run the command line in an empty folder: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["spectheory", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            app()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def pair(tiny_folders: Path, tmp_path: Path) -> list[object]:
    """Options that name the tiny pair and prompts for it."""
    texts = [file.text[-400:] for file in standard_library() if file.name.startswith("json/")]
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return ["--target", tiny_folders / "target", "--draft", tiny_folders / "draft", "--prompts", prompts]


def printed(ended: tuple[int, str, str]) -> str:
    """What a command printed, after a check that its exit status is 0."""
    assert ended[0] == 0, ended[2]
    return ended[1]


def records(run: Run) -> None:
    """Write acceptance.json, latency.json and plan.json."""
    st.Acceptance.by_depth_and_rank([[0.6, 0.2], [0.5, 0.1]]).save("acceptance.json")
    st.Latency.constant(draft_seconds=0.1).save("latency.json")
    files = ("--acceptance", "acceptance.json", "--latency", "latency.json", "--out", "plan.json")
    printed(run("plan", *files, "--max-budget", 6))


def test_the_whole_loop(run: Run, pair: list[object]) -> None:
    few = ["--count", 5, "--prompt-tokens", 16, "--new-tokens", 40]
    out = printed(run("trace", *pair, *few, "--out", "trace"))
    assert "wrote trace/acceptance.json" in out
    out = printed(run("profile", *pair[:4], "--contexts", "16,64", "--largest", 32, "--rounds", 3, "--out", "l.json"))
    assert "draft ms" in out
    files = ("--acceptance", "trace/acceptance.json", "--latency", "l.json", "--out", "plan.json")
    out = printed(run("plan", *files, "--max-budget", 8, "--explain"))
    plan = st.Schedule.load("plan.json")
    assert plan.answer in ("off", "chain", "tree")
    assert "plain decoding, per token" in out
    out = printed(run("decode", *pair, *few, "--skip", 0, "--plan", "plan.json", "--out", "measured.json"))
    assert "5 of 5" in out
    assert "theory" in out
    assert "measurement" in out
    assert st.Tally.load("measured.json").cycles.sum() > 0
    out = printed(run("decode", "import json", *pair[:4], "--plan", "plan.json", "--new-tokens", 8))
    assert out.startswith("import json")


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.deep)], ids=["few", "all"])
def test_the_demo_writes_its_records(run: Run, tiny_folders: Path, few: bool) -> None:
    """With shorter texts and fewer of them; `make test-deep` runs it as it is."""
    pair = ("--target", tiny_folders / "target", "--draft", tiny_folders / "draft", "--prompt-tokens", 64)
    less = ("--traced", 8, "--count", 4, "--new-tokens", 32) if few else ()
    status, out, err = run("demo", *pair, "--out", "demo", *less)
    assert status == 0, err
    assert "transformers' fastest" in " ".join(out.split())
    assert ("4 of 4" if few else "5 of 5") in out
    for folder in (Path("demo/temperature-0"), Path("demo/temperature-1")):
        plan, tally = st.Schedule.load(folder / "plan.json"), st.Tally.load(folder / "measured.json")
        assert f"{plan.tau:.3f}" in out
        assert f"{tally.tau:.3f}" in out
        assert st.Acceptance.load(folder / "acceptance.json").trials is not None


def test_the_demo_of_a_target_alone_answers_for_drafters_without_a_model(run: Run, tiny_folders: Path) -> None:
    few = ("--traced", 3, "--count", 2, "--new-tokens", 16, "--prompt-tokens", 16)
    out = printed(run("demo", "--target", tiny_folders / "target", "--out", "demo", *few))
    page = Path("demo/comparison.html").read_text()
    for temperature in ("0", "1"):
        assert f"At temperature {temperature} speculation " in out
        assert f"At temperature {temperature} speculation " in page
    assert "prompt lookup" in page
    assert "chain of 5" not in page


def test_the_demo_takes_fewer_prompts_than_its_defaults(run: Run, tiny_folders: Path) -> None:
    Path("chat.jsonl").write_text('{"text": "def read(path):"}\n' * 6)
    few = ("--prompts", "chat.jsonl", "--new-tokens", 8)
    assert "4 prompts are traced, 2 decoded" in " ".join(
        printed(run("demo", "--target", tiny_folders / "target", *few)).split()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--schedule", "absent.json", "--load", "poisson:3"], "there is no file absent.json"),
        (["plan", "--acceptance", "plan.json", "--latency", "latency.json"], "expected 'acceptance'"),
        (["decode", "--plan", "plan.json", "--out", "plan.json"], "plan.json is another file of this command"),
        (
            ["decode", "--plan", "plan.json", "--target", "nowhere", "--draft", "d"],
            "target folder nowhere holds no config.json",
        ),
        (
            ["profile", "--out", "x", "--contexts", "64,many"],
            "--contexts must be whole numbers with commas between them",
        ),
        (["profile", "--out", "x", "--largest", "0"], "--largest must be at least 1, got 0"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run: Run, arguments: list[str], message: str) -> None:
    records(run)
    files = sorted(Path().iterdir())
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(Path().iterdir()) == files


def test_without_torch_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.split(".")[0] == "reference"]:
        monkeypatch.delitem(sys.modules, name)
    status, _, err = run("trace", "--out", "trace")
    assert status == 2
    assert "pip install 'spectheory[reference]'" in err


NAMES = """trace profile import guard diagnose calibrate plan schedule serve replay decode compare certify check list
explore demo"""
"""The commands. Who adds one takes one away."""


def test_there_are_at_most_17_commands_and_180_options(run: Run) -> None:
    """Counted with arguments; `--x/--no-x` is one option."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(commands) == sorted(NAMES.split())
    options = [each for command in commands.values() for each in command.params if each.name != "help"]
    assert len(commands) <= 17
    assert len(options) <= 180
    assert run("--version") == (0, f"{st.__version__}\n", "")
