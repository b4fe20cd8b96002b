"""Ready adapters: plays of samplers that take their drafts in the layouts of vLLM, SGLang and EAGLE.

All arrays are NumPy arrays. `inputs.converted(torch.from_numpy)` makes tensors of them; results may be tensors in host
memory. The arguments of the samplers were read in vLLM 0.33, in `tree_speculative_sampling_target_only` of SGLang 0.5
and in `evaluate_posterior` of EAGLE; no code of theirs is here.
"""

from spectheory.certify.layouts.eagle import EagleInputs, eagle_play
from spectheory.certify.layouts.sglang import SglangInputs, sglang_play
from spectheory.certify.layouts.vllm import VllmInputs, vllm_play

__all__ = ["EagleInputs", "SglangInputs", "VllmInputs", "eagle_play", "sglang_play", "vllm_play"]
