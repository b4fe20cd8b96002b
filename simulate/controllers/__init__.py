"""The engines' own controllers: how vLLM, SGLang and TensorRT-LLM choose the draft length of a step."""

from simulate.controllers.sglang import sglang
from simulate.controllers.tensorrt_llm import tensorrt_llm
from simulate.controllers.vllm import vllm, vllm_adaptive

__all__ = ["sglang", "tensorrt_llm", "vllm", "vllm_adaptive"]
