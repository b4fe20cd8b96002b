"""`Layout`, the format of the checkpoints of one library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch

from reference.heads.config import HeadConfig
from reference.heads.fields import Fields

EAGLE3_OPTIONS = ("norm_before_fc", "fc_norm", "norm_output", "norm_before_residual")
"""Options of an EAGLE-3 head, fields of its configuration."""


class Layout(ABC):
    """The format of the checkpoints of one library.

    Attributes:
        name: the name on the command line.
        whole_map: whether a head that drafts all tokens also has `d2t` and `t2d` in its file.
        certain: whether a config.json that this layout owns certainly describes a head, and not possibly a model.
    """

    name: ClassVar[str]
    whole_map: ClassVar[bool] = False
    certain: ClassVar[bool] = True

    @abstractmethod
    def owns(self, config: dict[str, Any]) -> bool:
        """Whether a config.json has this layout."""

    @abstractmethod
    def refusal(self, config: HeadConfig) -> str | None:
        """What this layout cannot express of a head; None if it can express the head."""

    @abstractmethod
    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """The head that a config.json describes. `own_embedding`: whether its weights include token embeddings."""

    @abstractmethod
    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """The config.json of a head."""

    def prefix(self, config: HeadConfig) -> str:
        """The first part of the names of the layer's tensors."""
        return "layers.0." if config.kind == "eagle1" else "midlayer."

    def tensor_name(self, name: str, config: HeadConfig) -> str:
        """The name of the tensor that the module calls `name`."""
        return self.prefix(config) + rest if (rest := name.removeprefix("layer.")) != name else name


def other_than(value: Any, default: int) -> Any:
    """`value`, or None if it equals the default."""
    return None if value == default else value


def type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
