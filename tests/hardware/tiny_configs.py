"""Tiny configs of the families of models that are read, as changes to a Llama."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "vocab_size": 100,
}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
DEEPSEEK = {
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 8,
    "v_head_dim": 10,
    "n_routed_experts": 6,
    "n_shared_experts": 2,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "first_k_dense_replace": 2,
    "n_group": 1,
    "topk_group": 1,
}
HYBRID = {
    "linear_num_value_heads": 6,
    "linear_num_key_heads": 3,
    "linear_key_head_dim": 10,
    "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4,
}
WINDOW = {"sliding_window": 7}
SPARSE = {"num_local_experts": 4, "num_experts_per_tok": 2}
TINY: list[dict[str, Any]] = [
    {},
    {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    {"model_type": "mistral", **WINDOW},
    {"model_type": "mixtral", **SPARSE},
    {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 2, **WINDOW},
    {"model_type": "qwen3", "attention_bias": True},
    {"model_type": "qwen3_moe", "decoder_sparse_step": 2, "mlp_only_layers": [1], **MOE},
    {"model_type": "gemma2", **WINDOW},
    {"model_type": "gemma3_text", **WINDOW},
    {"model_type": "phi3", "head_dim": 16, **WINDOW},
    {"model_type": "gpt_oss", **SPARSE, **WINDOW},
    {"model_type": "deepseek_v2", "q_lora_rank": None, **DEEPSEEK},
    {"model_type": "deepseek_v3", "q_lora_rank": 20, "attention_bias": True, **DEEPSEEK},
    {"model_type": "qwen3_next", "shared_expert_intermediate_size": 30, **HYBRID, **MOE},
    {"model_type": "qwen3_5_text", **HYBRID},
    {"model_type": "qwen3_5_moe_text", "shared_expert_intermediate_size": 30, **HYBRID, **MOE},
    {"model_type": "glm4_moe", "use_qk_norm": True, **MOE, **{k: DEEPSEEK[k] for k in sorted(DEEPSEEK)[:6]}},
]
