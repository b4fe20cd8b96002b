"""The matrix of drafters, verifiers and temperatures on a tiny random pair: results, resuming, bad input, command."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import spectheory.verify as verifying
from reference import combinations as data
from reference.combinations import Combination
from reference.compatibility import incompatibility
from reference.decode import Cycle, Decoder
from reference.library_sources import standard_library
from reference.matrix import Matrix, MatrixSettings, Texts
from reference.matrix_scores import repeated_share
from reference.models import Pair
from reference.part_files import ForeignFolderError
from reference.predictions import conditional
from reference.random_streams import streams
from spectheory import otlp
from spectheory.otlp import Solver
from spectheory.report.calibration import calibration_figure, calibration_page, calibration_rows, calibration_words
from spectheory.report.figures import SERIES
from spectheory.results.calibration import BOUND, Calibrated, Calibration
from spectheory.verify import Verifier
from tests.cli.test_cli import Run, pair, run
from tests.covering import covering
from tests.known import known
from tests.refusals import refuses

__all__ = ["pair", "run"]

TEMPERATURES = [0.0, 1.0]
PROMPTS = [[10 * i + j for j in range(8)] for i in range(10)]
TEXTS = Texts(PROMPTS[:8], PROMPTS[8:], PROMPTS)
SETTINGS = MatrixSettings("numbers", new_tokens=16, seed=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix")


@pytest.fixture(scope="module")
def chosen(tiny: Pair, folder: Path) -> list[Combination]:
    return Matrix(folder, tiny, TEXTS, SETTINGS).combinations(TEMPERATURES)


def parts(combination: Combination) -> list[object]:
    """The policy, the verifier, and the family of the policy with the temperature."""
    policy = combination.policy
    return [policy.name, combination.verifying, (policy.family, combination.sampling.temperature)]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["few", "all"])
def test_every_combination_runs_and_its_distribution_holds(
    tiny: Pair, folder: Path, chosen: list[Combination], every: bool
) -> None:
    """Every z within 4, fixed seeds: were z normal, right distributions would fail with a probability of 1% at most.

    Each policy, each verifier, and each family of policies at each temperature; deep, every combination.
    """
    tried = chosen if every else covering(chosen, parts)
    whole = Matrix(folder, tiny, TEXTS, SETTINGS).run(tried)
    assert len(whole.rows) == len(tried) > (60 if every else 20)
    assert whole.level < 0.01
    z = np.array([row.z for row in whole.rows if row.z is not None])
    assert len(z) > (40 if every else 12)
    assert abs(z).max() == abs(whole.widest_z or 0) <= 4
    assert 0.5 < (z**2).mean() < 1.7
    for row in whole.rows:
        assert row.requests == 2
        assert known(row.tau_low) <= row.tau <= known(row.tau_high)
        if row.temperature == 0:
            assert (row.compared, row.identical, row.z, row.exact) == (2, 2, None, row.tau)
        else:
            assert (row.compared, row.identical, row.largest_margin) == (0, 0, None)
        assert (row.positional is None) == (row.family == "model-free")


def test_no_combination_is_dropped(chosen: list[Combination]) -> None:
    """Every verifier and solver of the package is in the matrix or left out by name, every pair that fits is run."""
    named = {combination.verifying for combination in chosen}
    solvers = {name for name, kind in vars(otlp).items() if inspect.isclass(kind) and issubclass(kind, Solver)}
    verifiers = {name for name, kind in vars(verifying).items() if inspect.isclass(kind) and issubclass(kind, Verifier)}
    greedy_or_abstract = {"ArgMax", "Solver", "TopDown", "BottomUp", "Verifier"}
    assert solvers | verifiers == named | greedy_or_abstract | set(data.LEFT_OUT)
    assert len({combination.key for combination in chosen}) == len(chosen)
    names = {combination.name for combination in chosen}
    for combination in chosen:
        for verifier in () if combination.sampling.greedy else data.VERIFIERS:
            other = Combination(combination.policy, verifier, combination.sampling)
            why = incompatibility(combination.policy.drafter, verifier, combination.sampling)
            assert (other.name in names) == (why is None)
    policies = {c.policy.name for c in chosen if not c.sampling.greedy}
    greedy = {c.policy.name for c in chosen if c.sampling.greedy}
    assert policies - greedy == {"hub 2x2x2", "top and one 3x2x1"}
    assert {"prompt lookup", "token recycling", "Goose", "Lookahead", "datastore"} <= greedy & policies


def test_the_exact_prediction_is_the_mean_of_what_is_drawn(tiny: Pair, chosen: list[Combination]) -> None:
    """E[tau] and Var[tau] of one cycle against 300 draws for each verifier, on trees where it takes them. |z| of the
    mean below 5: level 1e-5 for all 12 together, fixed seeds; the variance within half of itself."""
    sampled = [combination for combination in chosen if not combination.sampling.greedy]
    tried = {combination.verifying: combination for combination in sampled if combination.policy.family == "chain"}
    for combination in sampled:
        if combination.policy.family in ("paths", "drawn tree"):
            tried[combination.verifying] = combination
    assert len(tried) == len(data.VERIFIERS)
    for name, combination in tried.items():
        cycles: list[Cycle] = []
        verifier, rng = combination.verifier, np.random.default_rng(2)
        decoder = Decoder(tiny, combination.policy.drafter, combination.sampling, verifier)
        decoder.generate(PROMPTS[0], 8, *streams(tiny, 1), watch=cycles.append)
        cycle = max(cycles, key=lambda cycle: conditional(verifier, cycle)[1])
        mean, variance = conditional(verifier, cycle)
        tau = 1 + cycle.draft.tree.depth[[verifier._sample(cycle.draft, known(cycle.p), rng)[0] for _ in range(300)]]
        assert abs(tau.mean() - mean) < 5 * np.sqrt(variance / len(tau)), name
        assert tau.var() == pytest.approx(variance, rel=0.5), name


def test_an_interrupted_matrix_goes_on_and_equals_an_uninterrupted_one(tiny: Pair, tmp_path: Path) -> None:
    def matrix(name: str, settings: MatrixSettings = SETTINGS, texts: Texts = TEXTS) -> Matrix:
        return Matrix(tmp_path / name, tiny, texts, settings)

    def stop(finished: int, total: int) -> None:
        if (finished, total) == (2, 4):
            raise KeyboardInterrupt

    def chains(of: Matrix) -> list[Combination]:
        return [combination for combination in of.combinations([1.0]) if "chain" in combination.name][:4]

    with pytest.raises(KeyboardInterrupt):
        matrix("two").run(chains(matrix("two")), stop)
    stamps = {part: part.stat().st_mtime_ns for part in (tmp_path / "two").glob("chain*.parquet")}
    assert len(stamps) == 2
    assert not (tmp_path / "two" / "matrix.parquet").exists()
    found, whole = (matrix(name).run(chains(matrix(name))) for name in ("two", "one"))
    assert not list(tmp_path.rglob("*.partial"))
    assert found.rows == whole.rows
    assert all(part.stat().st_mtime_ns == stamp for part, stamp in stamps.items())
    parts = sorted((tmp_path / "one").glob("*.parquet"))
    assert len(parts) == 5
    for part in parts:
        assert part.read_bytes() == (tmp_path / "two" / part.name).read_bytes()
    summary = pq.read_table(tmp_path / "two" / "matrix.parquet").to_pylist()
    assert [Calibrated(**row) for row in summary] == list(found.rows)
    differing = r"a matrix with other new_tokens \(16, here 17\), seed \(5, here 6\): name an empty folder"
    with pytest.raises(ForeignFolderError, match=differing):
        matrix("two", MatrixSettings("numbers", new_tokens=17, seed=6))
    assert matrix("two").stamp.placement == {"device": "cpu", "dtype": "torch.float64", "attention": "sdpa"}
    with pytest.raises(ForeignFolderError, match="holds a matrix with other prompts:"):
        matrix("two", texts=Texts(PROMPTS[:7], PROMPTS[7:], PROMPTS))
    refuses("need prompts to trace and to measure, got 10 and 0", matrix, "two", texts=Texts(PROMPTS, [], PROMPTS))
    with pytest.raises(ForeignFolderError, match="trace-1 holds a trace, not a matrix: name another folder"):
        matrix("two/trace-1")
    (tmp_path / "mine.txt").write_text("mine")
    for name in ("mine.txt", "mine.txt/within"):
        refuses(r"cannot be a folder, .*mine.txt is a file: name another place", matrix, name)
    assert (tmp_path / "mine.txt").read_text() == "mine"
    next(iter(stamps)).write_bytes(b"PAR1")
    refuses(r"chain-of-5-.*parquet is damaged: remove it", matrix("two").run, chains(matrix("two")))


ROW = Calibrated(
    policy="chain",
    family="chain",
    verifier="NSS",
    temperature=1.0,
    requests=3,
    cycles=30,
    nodes=5.0,
    tau=2.0,
    tau_low=1.8,
    tau_high=2.2,
    exact=2.1,
    z=-1.25,
    positional=2.5,
    positional_low=2.4,
    positional_high=2.6,
    classes=2.2,
    classes_low=1.9,
    classes_high=2.5,
    replayed=2.05,
    replayed_low=1.95,
    replayed_high=2.15,
    replay_z=0.5,
    repeated_share=0.25,
    compared=0,
    identical=0,
    largest_margin=None,
)
GREEDY = replace(ROW, verifier="Greedy", temperature=0.0, exact=2.0, z=None, replay_z=None, compared=3, identical=2)
UNMODELLED = replace(
    GREEDY,
    policy="lookup",
    family="model-free",
    positional=None,
    positional_low=None,
    classes=None,
    classes_low=None,
    replayed=None,
    replayed_low=None,
)
CLASSES, REPLAY = ("2.200", "+10.0%"), ("2.050", "0.10", "+2.5%")


def test_what_the_tables_say() -> None:
    rows = (ROW, replace(GREEDY, positional=2.02, largest_margin=3e-6), UNMODELLED)
    found = Calibration(rows, {"Slow": "takes a year"})
    greedy, sampled = calibration_rows(found)
    assert sampled.rows == (
        ("chain, NSS", "5.0", "2.000", "0.20", "2.100", "-1.25", "2.500", "+25.0%", *CLASSES, *REPLAY, "+0.50"),
    )
    assert greedy.rows[0][4:] == ("2/3", "2.020", "+1.0%", *CLASSES, *REPLAY, "-")
    assert greedy.rows[1][:1] + greedy.rows[1][4:] == ("lookup", "2/3", *["-"] * 8)
    assert greedy.title == "Temperature 0: 3 requests, ± half a 95% interval, 25% of 4-grams repeat"
    tried = calibration_rows(Calibration((ROW, replace(ROW, verifier="Block")), {}))[0]
    assert [row[0] for row in tried.rows] == ["chain", "· NSS", "· Block"]
    law, text, own, noise, replayed, classes, model, by_verifier, left = calibration_words(found)
    assert law.startswith("Exact prediction holds: the largest z of 1 is -1.25.")
    assert "would have a probability of at most 0.006%." in law
    assert replayed.endswith(
        "median error 2.5%, within 5% for 2 of 2 combinations, within the joint 95% interval for 2. Largest errors: "
        "chain, NSS at 1: +2.5%; chain, Greedy at 0: +2.5%."
    )
    assert noise == "Half the 95% interval of a measured tau is 10.0% in the middle case."
    assert "median error 10.0%, within 5% for 0 of 2 combinations" in classes
    assert own.startswith("Replay on the measured texts themselves: the largest z of 1 is +0.50")
    assert text.startswith(
        "Greedy text equals the text of plain decoding for 4 of 6 requests; where texts diverge, the two logits"
    )
    assert "median error 13.0%, within 5% for 1 of 2 combinations, within the joint 95% interval for 1." in model
    assert "Largest errors: chain, NSS at 1: +25.0%" in model
    assert by_verifier.endswith("Errors by verifier: NSS +25%; Greedy +1%.")
    assert left == "Left out: Slow takes a year."
    assert calibration_words(replace(found, rows=(replace(ROW, z=4.5),)))[0].startswith(
        "Exact prediction DOES NOT HOLD"
    )
    assert found.level == pytest.approx(6.334e-5, rel=1e-3)
    page = calibration_page("Title", found)
    assert page.count("<caption>") == 2
    assert page.count("<svg ") == 1


def test_the_figure_marks_no_exact_prediction_of_greedy_text() -> None:
    """Marks by their colour, the one of the legend included."""

    def marks(*rows: Calibrated) -> int:
        return len(re.findall(rf"<use [^>]*stroke: {SERIES[0]}", calibration_figure(Calibration(rows, {}))))

    assert (marks(GREEDY), marks(UNMODELLED), marks(GREEDY, ROW)) == (3, 1, 6)


def test_a_matrix_with_top_k_states_it_and_replays_it(tiny: Pair, tmp_path: Path) -> None:
    texts = Texts([[10 * i + j for j in range(8)] for i in range(3)], [[5 + i, 7, 9, 11] for i in range(4)], [[1, 2]])
    matrix = Matrix(tmp_path, tiny, texts, MatrixSettings("made up", new_tokens=24, top_k=3, top_p=0.9))
    wanted = "chain of 5, Block,", "chain of 5, Greedy,"
    named = [one for one in matrix.combinations([0, 0.6]) if one.name.startswith(wanted)]
    assert [str(one.sampling) for one in named] == ["temperature 0", "temperature 0.6 and top-k 3 and top-p 0.9"]
    greedy, sampled = (found := matrix.run(named)).rows
    assert abs(known(sampled.replay_z)) < BOUND
    assert sampled.replayed is not None
    assert greedy.exact == greedy.tau
    assert (found.provenance.top_k, found.provenance.top_p) == (3, 0.9)
    titles = [table.title.partition(":")[0] for table in calibration_rows(found)]
    assert titles == ["Temperature 0", "Temperature 0.6 and top-k 3 and top-p 0.9"]
    assert matrix.temperatures == [0.0, 0.6]


def test_repeats_are_counted() -> None:
    assert repeated_share([[1, 2, 3, 4, 1, 2, 3, 4]]) == pytest.approx(1 / 5)
    assert repeated_share([[1, 2, 3]]) is None


def test_the_command(run: Run, pair: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [file for file in standard_library() if file.name.startswith("json/")]
    monkeypatch.setattr("reference.prompts.standard_library", lambda: files)
    small = ["--skip", 3, "--count", 2, "--prompt-tokens", 8, "--new-tokens", 30, "--temperatures", "0,1"]
    out = tmp_path / "out"
    status, said, wrong = run("matrix", *pair, *small, "--out", out, "--only", "token recycling")
    assert status == 0, wrong
    assert "Temperature 1: 2 requests" in said
    for name in ("matrix.parquet", "calibration.svg", "index.html", "provenance.json"):
        assert (out / name).exists()
    status, said, _ = run(
        "matrix", *pair, *small, "--out", out, "--temperatures", 1, "--only", "chain of 5, Block", "--json"
    )
    found = [(row["policy"], row["verifier"]) for row in json.loads(said)["rows"]]
    assert found == [("token recycling", "Greedy"), ("chain of 5", "Block"), ("token recycling", "NSS")]
    assert len(pq.read_table(out / "matrix.parquet")) == 3
    for arguments, message in (
        (
            ["--out", out, "--temperatures", "cold"],
            "--temperatures must be numbers with commas between them, got 'cold'",
        ),
        ([*pair, *small, "--out", out, "--only", "nobody"], "no combination's name contains --only 'nobody'"),
        ([*pair, *small, "--out", out, "--seed", 1], "holds a matrix with another seed"),
        ([*pair, *small, "--out", out, "--top-k", 5], "holds a matrix with another top_k (not recorded, here 5)"),
        ([*small[:-1], "0", "--out", "other", "--top-k", 5], "top_k=5 and top_p=1 have no effect at temperature 0"),
        ([*small, "--out", "other", "--top-p", 2], "top_p must be above 0 and at most 1, got 2.0"),
    ):
        status, _, said = run("matrix", *arguments)
        assert status == 2
        assert message in said.replace("\n", " ")
