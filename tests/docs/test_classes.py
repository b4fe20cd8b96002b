"""Classes are abstract or final."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys

import spectheory
from spectheory.core.record import Record


def test_no_concrete_class_has_a_subclass() -> None:
    """Every class with a subclass in the package is abstract, a protocol, the base of records, or an exception."""
    for module in pkgutil.walk_packages(spectheory.__path__, "spectheory."):
        importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "spectheory"]
    classes = {one for module in modules for one in vars(module).values() if inspect.isclass(one)}
    ours = {one for one in classes if one.__module__.split(".")[0] == "spectheory"}
    bases = {base for one in ours for base in one.__bases__ if base in ours}
    assert bases
    for base in bases:
        is_open = inspect.isabstract(base) or getattr(base, "_is_protocol", False) or issubclass(base, Exception)
        assert is_open or base is Record, f"{base} has subclasses: make it abstract, or compose instead of inherit"
