"""The measured device, and its description in records."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import spectheory
from spectheory import Provenance
from spectheory.core.errors import InputError

DRY_RUN = "dry run"
"""The device's name in a dry run; no GPU has this name."""
DRY_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Place:
    """A device with the driver's name of it; `memory_bytes` is its total memory."""

    device: str
    name: str
    memory_bytes: float

    @classmethod
    def found(cls, *, dry_run: bool) -> Place:
        """The first CUDA device, or the CPU for a dry run.

        Raises:
            InputError: there is no CUDA device.
        """
        if dry_run:
            torch.set_num_threads(1)  # tiny models gain nothing from threads, and on a busy machine they wait
            return cls("cpu", DRY_RUN, DRY_BYTES)
        if not torch.cuda.is_available():
            raise InputError(
                f"no CUDA device: torch {torch.__version__} sees none. Run this on a machine with a GPU, or add "
                "--dry-run, which goes through the same steps with tiny shapes on the CPU and measures nothing"
            )
        about = torch.cuda.get_device_properties(0)
        return cls("cuda", about.name, about.total_memory)

    @property
    def dry(self) -> bool:
        """Whether this is a dry run."""
        return self.name == DRY_RUN

    def stamp(self, part: str, seed: int, **settings: object) -> Provenance:
        """The provenance of a record that is made here and now."""
        return Provenance.now(
            f"python -m benchmarks.gpu {part}",
            seed=seed,
            packages=("torch", "transformers"),
            device=self.name,
            settings={
                "memory_gb": f"{self.memory_bytes / 1e9:.1f}",
                "cuda": torch.version.cuda,
                "checkout": spectheory.__version__,
                **{name: str(value) for name, value in settings.items()},
            },
        )
