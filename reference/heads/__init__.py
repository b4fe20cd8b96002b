"""Draft heads: EAGLE-1, EAGLE-2 and EAGLE-3; the files of checkpoints."""

from reference.heads.config import HeadConfig, Kind
from reference.heads.files import expected_shapes, holds_head, read_head, write_head
from reference.heads.layouts import LAYOUTS
from reference.heads.modules import Eagle1Head, Eagle3Head, Head, HeadStep, new_head

__all__ = [
    "LAYOUTS",
    "Eagle1Head",
    "Eagle3Head",
    "Head",
    "HeadConfig",
    "HeadStep",
    "Kind",
    "expected_shapes",
    "holds_head",
    "new_head",
    "read_head",
    "write_head",
]
