"""Where plans leave for serving engines and where their statistics come in: one engine a file.

`<engine>.export(plan, version=...)` writes a plan as an `Export` of flags and files in the engine's own counting, and
refuses what that version cannot run. `<engine>.from_...` reads what the engine reports as `Statistics`.

>>> plan = [ChainRange(1, 64, 3), ChainRange(65, 512, 0)]
>>> tensorrt_llm.export(plan, version="1.3.0rc27", model="draft").files["speculative_config.yaml"].splitlines()[-1]
'  draft_len_schedule: {64: 3}'
"""

from spectheory.engines import eagle, hugging_face, llama_cpp, medusa, mlx_lm, sequoia, sglang, tensorrt_llm, vllm
from spectheory.engines.exported import Export
from spectheory.engines.shapes import ChainRange, Envelope
from spectheory.engines.statistics import Statistics

__all__ = [
    "ChainRange",
    "Envelope",
    "Export",
    "Statistics",
    "eagle",
    "hugging_face",
    "llama_cpp",
    "medusa",
    "mlx_lm",
    "sequoia",
    "sglang",
    "tensorrt_llm",
    "vllm",
]
