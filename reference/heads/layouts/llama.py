"""`LlamaLayout`, what the layouts of SGLang and the EAGLE repository share."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from reference.heads.config import HeadConfig
from reference.heads.fields import Fields, layer_fields
from reference.heads.layouts.layout import Layout, other_than, type_name
from spectheory.core.errors import InputError


class LlamaLayout(Layout):
    """What SGLang and the EAGLE repository share: the fields of one Llama config.json."""

    whole_map = True
    architectures: ClassVar[dict[str, str]]
    """The architecture of each kind of head."""

    def _options(self, fields: Fields) -> dict[str, Any]:
        """Options of an EAGLE-3 head beyond the EAGLE repository's."""
        return {}

    def _option_fields(self, config: HeadConfig) -> dict[str, Any]:
        """The fields of `_options`."""
        return {}

    def read(self, fields: Fields, *, own_embedding: bool) -> HeadConfig:
        """See Layout.read."""
        kind = "eagle3" if "draft_vocab_size" in fields.left else "eagle1"
        architectures, sizes = fields.need("architectures"), fields.layer()
        if architectures != [self.architectures[kind]]:
            raise InputError(
                f"architectures must be [{self.architectures[kind]}] for a head of kind {kind}, which "
                f"{'has' if kind == 'eagle3' else 'lacks'} draft_vocab_size, got {architectures!r:.80}"
            )
        options: dict[str, Any] = {}
        if kind == "eagle3":
            options = {
                "target_hidden_size": other_than(fields.take("target_hidden_size"), sizes["hidden_size"]),
                "draft_vocab_size": other_than(fields.whole("draft_vocab_size"), sizes["vocab_size"]),
                **self._options(fields),
            }
        config = HeadConfig(
            kind,
            **sizes,
            **options,
            fc_bias=fields.flag("bias", kind == "eagle1"),
            own_embedding=own_embedding,
            target=fields.take("base_model"),
        )
        fields.finish()
        return config

    def written(self, config: HeadConfig, dtype: torch.dtype) -> dict[str, Any]:
        """See Layout.written. Other libraries ignore `base_model`, the name of the target."""
        options: dict[str, Any] = {}
        if config.kind == "eagle3":
            options = {"draft_vocab_size": config.outputs, **self._option_fields(config)}
            if config.target_hidden_size is not None:
                options["target_hidden_size"] = config.target_hidden_size
        return {
            "architectures": [self.architectures[config.kind]],
            "base_model": config.target,
            "bias": config.fc_bias,
            "torch_dtype": type_name(dtype),
            **layer_fields(config),
            **options,
        }
