"""Tiny configs of every family of models, as changes to a Llama."""

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
WINDOW = {"sliding_window": 7}
WHOLE = {"num_key_value_heads": 4, "head_dim": 16}
SHARED = {"shared_expert_intermediate_size": 56}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 10,
    "linear_conv_kernel_dim": 3,
}
MAMBA = {
    "mamba_num_heads": 6,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "ssm_state_size": 5,
    "conv_kernel": 3,
    "hybrid_override_pattern": "ME*-M",
    "n_routed_experts": 6,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "moe_shared_expert_intermediate_size": 56,
}
INDEXED = {"index_n_heads": 3, "index_head_dim": 16, "index_topk": 9, "q_lora_rank": 20}
SPARSE = {"num_local_experts": 4, "num_experts_per_tok": 2}
PER_LAYER = {"hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 90}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"] * 3, "num_hidden_layers": 6}
LOOKED_UP = ("wpe", "embed_positions", "embed_tokens_per_layer")
TINY: list[dict[str, Any]] = [
    {},
    {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    {"model_type": "mistral", **WINDOW},
    {"model_type": "ministral3", **WINDOW},
    {"model_type": "mixtral", **SPARSE},
    {"model_type": "qwen2"},
    {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 2, **WINDOW},
    {"model_type": "qwen3", "attention_bias": True},
    {"model_type": "qwen2_moe", **SHARED, **MOE},
    {"model_type": "qwen2_moe", **SHARED, "qkv_bias": False, **MOE},
    {"model_type": "qwen3_moe", "decoder_sparse_step": 2, "mlp_only_layers": [1], **MOE},
    {"model_type": "qwen3_next", "mlp_only_layers": [1], **MOE, **SHARED, **DELTA},
    {"model_type": "qwen3_5_text", "full_attention_interval": 2, **DELTA},
    {"model_type": "qwen3_5_moe_text", **MOE, **SHARED, **DELTA},
    {"model_type": "gemma"},
    {"model_type": "gemma2", **WINDOW},
    {"model_type": "gemma3_text", **WINDOW},
    {"model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "global_head_dim": 32, **WINDOW},
    {
        "model_type": "gemma4_text",
        "hidden_size_per_layer_input": 0,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        **WINDOW,
    },
    {
        "model_type": "gemma4_text",
        "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True,
        **PER_LAYER,
        **ALTERNATING,
        **WINDOW,
    },
    {
        "model_type": "gemma4_text",
        "enable_moe_block": True,
        "num_experts": 6,
        "top_k_experts": 2,
        "moe_intermediate_size": 40,
        "hidden_size_per_layer_input": 0,
        **WINDOW,
    },
    {"model_type": "phi", "num_key_value_heads": 4, "head_dim": 16, "tie_word_embeddings": False},
    {"model_type": "phi3", "head_dim": 16, **WINDOW},
    {"model_type": "gpt2", "n_embd": 64, "n_layer": 5, "n_head": 4, "n_positions": 30, "n_inner": 90, **WHOLE},
    {"model_type": "gpt_neox", **WHOLE},
    {"model_type": "gpt_neox", **WHOLE, "attention_bias": False},
    {
        "model_type": "opt",
        "ffn_dim": 96,
        "max_position_embeddings": 30,
        "word_embed_proj_dim": 64,
        **WHOLE,
    },
    {"model_type": "gpt_oss", **SPARSE, **WINDOW},
    {"model_type": "deepseek_v2", "q_lora_rank": None, **DEEPSEEK},
    {"model_type": "deepseek_v3", "q_lora_rank": 20, "attention_bias": True, **DEEPSEEK},
    {"model_type": "deepseek_v32", **DEEPSEEK, **INDEXED},
    {"model_type": "glm"},
    {"model_type": "glm4"},
    {"model_type": "glm4_moe", "use_qk_norm": True, **MOE, **{k: DEEPSEEK[k] for k in sorted(DEEPSEEK)[:6]}},
    {"model_type": "glm4_moe_lite", "q_lora_rank": 20, **DEEPSEEK, "first_k_dense_replace": 1, "head_dim": 8},
    {"model_type": "glm_moe_dsa", **DEEPSEEK, **INDEXED},
    {"model_type": "granite"},
    {"model_type": "granitemoe", **SPARSE},
    {"model_type": "olmo"},
    {"model_type": "olmo2"},
    {"model_type": "olmo3", **WINDOW},
    {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 2, "head_dim": 16},
    {"model_type": "cohere"},
    {"model_type": "cohere", "use_qk_norm": True},
    {"model_type": "cohere2", **WINDOW},
    {"model_type": "starcoder2", **WINDOW},
    {"model_type": "starcoder2", "use_bias": False},
    {"model_type": "smollm3"},
    {"model_type": "exaone4", **WINDOW},
    {"model_type": "seed_oss"},
    {"model_type": "ernie4_5"},
    {"model_type": "ernie4_5", "use_bias": True},
    {"model_type": "hunyuan_v1_dense"},
    {"model_type": "nemotron"},
    {"model_type": "nemotron_h", **MAMBA},
    {"model_type": "nemotron_h", **MAMBA, "moe_latent_size": 12, "use_bias": True, "use_conv_bias": False},
    {"model_type": "llama4_text", "num_local_experts": 4, "intermediate_size_mlp": 80, "num_experts_per_tok": 1},
    {
        "model_type": "llama4_text",
        "interleave_moe_layer_step": 2,
        "num_local_experts": 4,
        "intermediate_size_mlp": 80,
        "num_experts_per_tok": 1,
        "attention_chunk_size": 7,
    },
    {"model_type": "minimax_m2", **SPARSE},
]
