"""The directives `public-names` and `modules`: the API reference, from `__all__` and the docstrings.

An object that several packages export is described once, on the page of the innermost of them; the other pages link to
it. Every public name is in the index of the site, `objects.inv`.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from docstrings import escaped
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

TOP = ("spectheory", "simulate", "reference")
KINDS = ("Functions", "Classes", "Values", "Packages")
PRIVATE = ("spectheory.cli", "spectheory.core.coins")
"""Packages whose `__all__` is for the rest of the house; what users need of them is exported by other packages."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public-names", PublicNames)
    app.add_directive("modules", Modules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class PublicNames(SphinxDirective):
    """`public-names:: spectheory.otlp` describes the public names of a package or a module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        package = self.arguments[0]
        text = [f".. py:module:: {package}", "", f".. automodule:: {package}", "   :no-members:", "   :no-index:", ""]
        names = public_names(package)
        groups = {kind: [name for name in names if kind_of(package, name) == kind] for kind in KINDS}
        for kind, members in groups.items():
            text += [f".. rubric:: {kind}", ""] if members and len(members) < len(names) else []
            text += table([(link(home(package, name), name), first_sentence(package, name)) for name in members])
        described = [name for name in names if home(package, name) == f"{package}.{name}"]
        text += [line for name in described for line in description(package, name)]
        found = self.parse_text_to_nodes("\n".join(text), offset=self.content_offset)
        self._note_other_names(package, set(names) - set(described))
        return found

    def _note_other_names(self, package: str, names: set[str]) -> None:
        """Enter names that are described elsewhere into the index of the site, at the top of this page."""
        domain = self.env.domains.python_domain
        for name in names:
            kind = "module" if inspect.ismodule(getattr(import_module(package), name)) else "class"
            domain.note_object(f"{package}.{name}", kind, f"module-{package}", aliased=True)


class Modules(SphinxDirective):
    """`modules:: spectheory.core` lists the modules of a package with the first sentence of each."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        package = import_module(self.arguments[0])
        names = [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)]
        rows = [(f"``{name}``", sentence(import_module(name).__doc__)) for name in names]
        name = package.__name__
        text = [
            f".. py:module:: {name}",
            "",
            f".. automodule:: {name}",
            "   :no-members:",
            "   :no-index:",
            "",
            *table(rows),
        ]
        return self.parse_text_to_nodes("\n".join(text), offset=self.content_offset)


def packages() -> list[str]:
    """All packages that have public names, and all modules that a package exports."""
    return [name for top in TOP for name in _packages(top) if public_names(name) and name not in PRIVATE]


def _packages(name: str) -> Iterator[str]:
    yield name
    package = import_module(name)
    exported = {name for name in getattr(package, "__all__", ()) if inspect.ismodule(getattr(package, name))}
    for found in pkgutil.iter_modules(getattr(package, "__path__", ())):
        if found.ispkg or found.name in exported:
            yield from _packages(f"{name}.{found.name}")


def public_names(name: str) -> list[str]:
    """`__all__`; of a module that has none, the classes and functions that it defines, without underscore."""
    module = import_module(name)
    if hasattr(module, "__all__"):
        return sorted(module.__all__, key=lambda name: name.strip("_").lower())
    if hasattr(module, "__path__"):
        return []
    own = inspect.getmembers(module, lambda one: getattr(one, "__module__", None) == name)
    return [name for name, _ in own if not name.startswith("_")]


@cache
def homes() -> dict[int, str]:
    """For each public object, by its `id`, the innermost public name."""
    found: dict[int, str] = {}
    for package in sorted(packages(), key=lambda name: name.count(".")):
        module = import_module(package)
        found |= {id(getattr(module, name)): f"{package}.{name}" for name in public_names(package)}
    return found


def home(package: str, name: str) -> str:
    """The name under which the object is described."""
    one = getattr(import_module(package), name)
    if inspect.ismodule(one):
        return one.__name__
    return homes().get(id(one), f"{package}.{name}") if callable(one) else f"{package}.{name}"


def kind_of(package: str, name: str) -> str:
    """One of `KINDS`."""
    one = getattr(import_module(package), name)
    if inspect.ismodule(one):
        return "Packages"
    return "Functions" if inspect.isroutine(one) else "Classes" if inspect.isclass(one) else "Values"


def link(target: str, name: str) -> str:
    return f":py:obj:`{name} <{target}>`"


def first_sentence(package: str, name: str) -> str:
    if kind_of(package, name) == "Values":
        return sentence("\n".join(text_of_value(package, name)))
    return sentence(getattr(import_module(package), name).__doc__)


def sentence(text: str | None) -> str:
    """The first sentence of a docstring."""
    paragraph = inspect.cleandoc(text or "").partition("\n\n")[0].replace("\n", " ")
    return re.sub(r":$", ".", re.split(r"(?<=[.:]) +(?=[A-Z`])", paragraph)[0])


def table(rows: list[tuple[str, str]]) -> list[str]:
    """A table of names and sentences in reStructuredText."""
    body = [line for name, text in rows for line in (f"   * - {name}", f"     - {text}")]
    return ["", ".. list-table::", "   :class: names", "   :widths: 30 70", "", *body, ""] if rows else []


def description(package: str, name: str) -> list[str]:
    kind = kind_of(package, name)
    if kind == "Packages":
        return []
    if kind == "Values":
        return [f".. py:data:: {name}", "", *(f"   {line}" for line in text_of_value(package, name)), ""]
    is_error = kind == "Classes" and issubclass(getattr(import_module(package), name), BaseException)
    directive = "autofunction" if kind == "Functions" else "autoexception" if is_error else "autoclass"
    return [f".. {directive}:: {package}.{name}", ""]


def text_of_value(package: str, name: str) -> list[str]:
    """The docstring that follows the assignment of a value, in the module that assigns it."""
    inside = pkgutil.iter_modules(getattr(import_module(package), "__path__", ()))
    for module in (package, *(f"{package}.{found.name}" for found in inside)):
        if found := ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name)):
            return escaped(found)
    return []
