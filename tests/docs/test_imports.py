"""Who may import whom: see CONTRIBUTING.md."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "spectheory": {"torch", "transformers", "tokenizers", "safetensors", "pyarrow", "cvxpy", "sympy"},
    "simulate": {"reference", "proofs_check"},
    "reference": {"simulate", "proofs_check"},
    "proofs_check": {"simulate", "reference"},
}
NOBODY = {"notebooks", "benchmarks", "tests"}
LAZY = {"reference", "simulate", "proofs_check", "torch", "transformers"}
OUTER_ROOMS = {"cli", "report"}


def imports(tree: ast.AST) -> set[str]:
    """Top-level names of all packages imported anywhere below `tree`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def at_import_time(tree: ast.Module) -> set[str]:
    """Those imported when the module is, not inside a function and not for type checkers only."""
    found = set()
    for node in tree.body:
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not typing_only and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            found |= imports(node)
    return found


@pytest.mark.parametrize("package", FORBIDDEN)
def test_packages_import_only_what_they_may(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        tree = ast.parse(file.read_text())
        room = file.relative_to(ROOT).parts[1]
        if package == "spectheory" and room == "cli":
            assert not at_import_time(tree) & LAZY, file
            continue
        assert not imports(tree) & (FORBIDDEN[package] | NOBODY), file
        if package == "spectheory":
            assert not imports(tree) & LAZY, file
            if room not in OUTER_ROOMS:
                assert not imports(tree) & {"typer", "rich", "pydantic", "matplotlib"}, file


def room_of(module: str) -> str:
    """The first folder or file below spectheory; the other packages are one room each."""
    package, _, below = module.partition(".")
    return below.partition(".")[0] if package == "spectheory" and below else package


def imported_rooms(node: ast.AST, lazy: bool) -> set[str]:
    """Rooms imported below `node`, if `lazy` in functions too; imports for type checkers do not count."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return set()
    if isinstance(node, ast.FunctionDef) and not lazy:
        return set()
    if isinstance(node, ast.Import):
        return {room_of(alias.name) for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        rooms = {path.stem for path in (ROOT / "spectheory").iterdir()}
        names = [alias.name for alias in node.names if module == "spectheory" and alias.name in rooms]
        return {*names} or {room_of(module)}
    return {room for child in ast.iter_child_nodes(node) for room in imported_rooms(child, lazy)}


def test_no_room_depends_on_itself() -> None:
    """Neither when it is imported nor when its functions run; only commands may import later what they call."""
    needs: dict[str, set[str]] = {}
    files = [file for package in FORBIDDEN for file in (ROOT / package).rglob("*.py") if file.stem != "__main__"]
    for file in files:
        room = room_of(".".join(file.relative_to(ROOT).with_suffix("").parts)).removesuffix("__init__")
        found = imported_rooms(ast.parse(file.read_text()), lazy=room != "cli")
        needs.setdefault(room or "spectheory", set()).update(found - {room})
    order = graphlib.TopologicalSorter({room: found & needs.keys() for room, found in needs.items()})
    ordered = list(order.static_order())  # or a CycleError that lists the rooms of a circle
    assert ordered[0] == "core"
    assert not needs["core"] & needs.keys()


def test_importing_spectheory_loads_nothing_heavy() -> None:
    code = "import json, sys, spectheory; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT).stdout)
    assert not set(loaded) & {"torch", "numba", "scipy", "matplotlib", "rich", "typer", "transformers"}


def test_a_whole_plan_never_loads_torch(tmp_path: Path) -> None:
    code = (
        "import sys, spectheory as st\n"
        "a, l = st.Acceptance.by_rank([0.6, 0.2]), st.Latency.constant(draft_seconds=0.1)\n"
        "a.save('a.json'); l.save('l.json')\n"
        "sys.argv = ['spectheory', 'plan', '--acceptance', 'a.json', '--latency', 'l.json', '--out', 'p.json']\n"
        "from spectheory.cli import app\n"
        "app(standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'pyarrow'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "p.json").exists()
