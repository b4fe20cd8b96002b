"""`Spectheory`, the layout of this package."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from reference.heads.config import HeadConfig
from reference.heads.fields import Fields, layer_fields
from reference.heads.layouts.layout import EAGLE3_OPTIONS, Layout, type_name


class Spectheory(Layout):
    """The layout of this package, which expresses every head. No other library reads it.

    Tensors have the names of the modules. config.json has the fields of `HeadConfig`, those of its layer under the
    names that every engine reads.
    """

    name = "spectheory"
    architecture: ClassVar[str] = "SpectheoryDraftHead"

    def owns(self, config: dict[str, Any]) -> bool:
        """See Layout.owns."""
        return config.get("architectures") == [self.architecture]

    def refusal(self, config: HeadConfig) -> str | None:
        """See Layout.refusal: nothing."""
        return None

    def tensor_name(self, name: str, config: HeadConfig) -> str:
        """See Layout.tensor_name: the name in the module."""
        return name

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """See Layout.read."""
        fields.take("architectures")
        config = HeadConfig(
            fields.need("kind"),
            **fields.layer(),
            **fields.flags("fc_bias", *EAGLE3_OPTIONS),
            own_embedding=own_embedding,
            layers=fields.layer_numbers("layers"),
            target_architectures=fields.names("target_architectures"),
            speculative_tokens=fields.whole("speculative_tokens"),
            **{name: fields.take(name) for name in ("target", "target_hidden_size", "draft_vocab_size", "depths")},
        )
        fields.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """See Layout.written."""
        names = (
            *("kind", "fc_bias", *EAGLE3_OPTIONS, "layers", "target", "target_architectures", "speculative_tokens"),
            *("target_hidden_size", "draft_vocab_size", "depths"),
        )
        return {
            "architectures": [self.architecture],
            "torch_dtype": type_name(dtype),
            **layer_fields(config),
            **{name: getattr(config, name) for name in names},
        }
