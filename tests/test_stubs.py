"""The stubs for pyright name what the installed libraries have."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import pytest

STUBS = Path(__file__).parent / "stubs"


@pytest.mark.parametrize("module", ["scipy.optimize", "scipy.stats", "sympy"])
def test_the_functions_of_a_stub_have_the_parameters_of_the_library(module: str) -> None:
    """All those of the stub, in this order; an older or newer library may have more that have a default."""
    functions = [node for node in stub_of(module).body if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in functions:
        parameters = inspect.signature(getattr(import_module(module), function.name)).parameters
        stated = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
        assert stated == [name for name in parameters if name in stated], function.name
        assert set(parameters) - set(stated) <= optional(parameters.values()), function.name
        positional = [name for name in parameters if name not in optional(parameters.values())]
        assert positional == stated[: len(positional)], function.name


def test_the_distributions_of_the_stub_have_their_methods() -> None:
    stub = stub_of("scipy.stats")
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    library = import_module("scipy.stats")
    named = [node for node in stub.body if isinstance(node, ast.AnnAssign)]
    assert named
    for node in named:
        assert isinstance(node.target, ast.Name)
        distribution = getattr(library, node.target.id)
        for method in classes[ast.unparse(node.annotation)].body:
            assert isinstance(method, ast.FunctionDef)
            of_library = inspect.signature(getattr(distribution, method.name)).parameters
            assert list(of_library) == [argument.arg for argument in method.args.args[1:]] + ["args", "kwds"]


def stub_of(module: str) -> ast.Module:
    return ast.parse((STUBS.joinpath(*module.split(".")) / "__init__.pyi").read_text(encoding="utf-8"))


def optional(parameters: Iterable[inspect.Parameter]) -> set[str]:
    gathering = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {each.name for each in parameters if each.default is not each.empty or each.kind in gathering}
