"""`Design`, the layers and all weights of a decoder, draft head or prediction module, by its config."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from spectheory.core.errors import InputError
from spectheory.hardware.attention_weights import attention_weights, caches_of, heads_of
from spectheory.hardware.head_weights import borrowed_head, head_kind, head_weights
from spectheory.hardware.hf_config import Fields
from spectheory.hardware.hf_layers import Layer, layers_of, prediction_layers
from spectheory.hardware.mlp_weights import experts_of, mlp_weights
from spectheory.hardware.recurrent_weights import recurrent_weights, state_of
from spectheory.hardware.shape import Shape, Use, Weights


@dataclass(frozen=True)
class Design:
    """A model or draft head as its config describes it: its layers and all its weights."""

    fields: Fields
    layers: tuple[Layer, ...]
    weights: tuple[Weights, ...]

    @property
    def shape(self) -> Shape:
        """The sums over the weights, and what the layers cache."""
        counts: Counter[Use] = Counter()
        for one in self.weights:
            counts[one.use] += one.size
        sparse = sum(layer.mlp == "experts" for layer in self.layers)
        experts, taken = experts_of(self.fields) if sparse else (0, 0)
        state = state_of(self.fields) if any(layer.mixer == "linear" for layer in self.layers) else (0, 0)
        recurrent = sum(layer.mixer == "linear" for layer in self.layers)
        latent, caches = self.fields.family.latent, caches_of(self.fields, self.layers)
        return Shape(
            layers=len(self.layers),
            linear_parameters=counts["matrix"],
            other_parameters=counts["other"] + counts["head"],
            lookup_parameters=counts["lookup"],
            borrowed_parameters=counts["borrowed"],
            kv_heads=1 if latent or not caches else heads_of(self.fields, full=False)[1],
            caches=caches,
            moe_layers=sparse,
            experts=experts,
            experts_per_token=taken,
            expert_linear_parameters=counts["expert"] // max(sparse, 1),
            expert_other_parameters=counts["expert other"] // max(sparse, 1),
            state_bytes=recurrent * state[0],
            state_flops=recurrent * state[1],
            latent=latent,
        )


def design_of(fields: Fields) -> Design:
    """The layers and weights of the model or draft head that `fields` describe.

    Raises:
        InputError: a field is missing or has an impossible value.
    """
    kind = head_kind(fields)
    layers = (Layer(0, "none", "none"),) if kind == "medusa" else layers_of(fields)
    hidden = fields.number("hidden_size")
    if kind == "medusa":
        return Design(fields, layers, tuple(head_weights(fields, kind, hidden)))
    body = [one for layer in layers for one in _layer(fields, layer, hidden)]
    if kind is None:
        return Design(fields, layers, (*body, *_ends(fields, len(layers), hidden)))
    return Design(fields, layers, (*body[kind == "eagle1" :], *head_weights(fields, kind, hidden)))


def prediction_of(fields: Fields) -> Design | None:
    """The multi-token-prediction module in the config of a target; None if the config has none.

    The module fuses the embedding of the last token with the hidden state of the target and runs one layer like the
    target's last one. It shares the embeddings and the output head of the target. If a config has several modules, all
    have this size, and each drafted token needs a forward of one of them.

    Source: DeepSeek-V3 technical report, section 2.2.
    """
    layers = prediction_layers(fields)
    if not layers:
        return None
    hidden = fields.number("hidden_size")
    body = [one for layer in layers for one in _layer(fields, layer, hidden)]
    prefix = _prefix(fields, layers[0])
    fusion = Weights(f"{prefix}.eh_proj", "other", hidden, 2 * hidden)
    norms = Weights(f"{prefix}.norms", "other", 3 * hidden)
    return Design(fields, layers, (*body, fusion, norms, borrowed_head(fields, hidden)))


def _prefix(fields: Fields, layer: Layer) -> str:
    return f"{'backbone' if fields.model_type == 'nemotron_h' else 'model'}.layers.{layer.index}"


def _layer(fields: Fields, layer: Layer, hidden: int) -> list[Weights]:
    """The weights of one decoder layer; the first of them are its norms."""
    family, prefix = fields.family, _prefix(fields, layer)
    norms = family.norms * (1 + family.norm_bias) * hidden
    weights = [Weights(f"{prefix}.norms", "other", norms)]
    if layer.mixer == "linear":
        weights += recurrent_weights(fields, prefix, hidden)
    elif layer.mixer != "none":
        weights += attention_weights(fields, layer, f"{prefix}.{family.attention_name}", hidden)
    if layer.mlp != "none":
        weights += mlp_weights(fields, layer, f"{prefix}.{family.mlp_name}", hidden)
    if fields.model_type == "gemma4_text":
        weights += _gemma4_layer(fields, layer, prefix, hidden)
    return weights


def _gemma4_layer(fields: Fields, layer: Layer, prefix: str, hidden: int) -> list[Weights]:
    """The scalar of a layer of Gemma 4, the norms and scales of its experts, and its embedding of the token."""
    weights = [Weights(f"{prefix}.layer_scalar", "other", 1)]
    if layer.mlp == "experts":
        weights.append(Weights(f"{prefix}.router.scales", "other", 4 * hidden + experts_of(fields)[0]))
    if inner := fields.number("hidden_size_per_layer_input", default=0, least=0):
        weights += [
            Weights(f"{prefix}.per_layer_input_gate", "matrix", inner, hidden),
            Weights(f"{prefix}.per_layer_projection", "matrix", hidden, inner),
            Weights(f"{prefix}.post_per_layer_input_norm", "other", hidden),
        ]
    return weights


def _gemma4_ends(fields: Fields, layers: int, hidden: int) -> list[Weights]:
    """The embeddings of each token for each layer of Gemma 4, and their projections."""
    inner = fields.number("hidden_size_per_layer_input", default=0, least=0)
    if not inner:
        return []
    rows = fields.number("vocab_size_per_layer_input", "vocab_size")
    return [
        Weights("model.embed_tokens_per_layer", "lookup", rows, layers * inner),
        Weights("model.per_layer_model_projection", "matrix", layers * inner, hidden),
        Weights("model.per_layer_projection_norm", "other", inner),
    ]


def _ends(fields: Fields, layers: int, hidden: int) -> list[Weights]:
    """Embeddings, final norm and output head of a whole model."""
    family, vocabulary = fields.family, fields.number("vocab_size")
    tied = fields.flag("tie_word_embeddings", family.tied)
    if fields.number("word_embed_proj_dim", default=hidden) != hidden:
        raise InputError(
            f"{fields.where}: word_embed_proj_dim must equal hidden_size={hidden}: others are not supported"
        )
    norm = Weights("model.norm", "other", family.final_norm * hidden * (1 + family.norm_bias))
    weights = [norm, Weights("lm_head", "head", vocabulary, hidden)]
    if family.head_bias:
        weights.append(Weights("lm_head.bias", "other", vocabulary))
    if not tied:
        weights.append(Weights("model.embed_tokens", "lookup", vocabulary, hidden))
    if family.positions is not None:
        rows = fields.number("max_position_embeddings") + family.positions
        weights.append(Weights("model.embed_positions", "lookup", rows, hidden))
    return weights + (_gemma4_ends(fields, layers, hidden) if fields.model_type == "gemma4_text" else [])
