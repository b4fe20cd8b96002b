"""`HeldOutTexts`, the texts of a target on which drafts are compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from reference.models import Pair, weights_hash
from reference.part_files import short_hash, stamp_of
from reference.replaying import traced_pair, traced_prompts
from reference.sampling import Sampling
from reference.token_checks import check_continued
from reference.tracing import by_request
from spectheory.core.errors import InputError


@dataclass(frozen=True, eq=False)
class HeldOutTexts:
    """Texts that a target generated after prompts on which no draft was trained.

    Attributes:
        pair: the target, and any draft of its vocabulary.
        prompts: the tokens before each text.
        texts: tokens that the target generated under `sampling`.
        sampling: temperature, top-k and top-p of the texts.
        sources: where each prompt is from, such as the name of its file. Texts of one source are one cluster; None
            means that texts of equal prompts are.

    Raises:
        InputError: the prompts and texts do not belong to this pair (see `check_continued`), there is not a source for
            each prompt, or fewer than 2 prompts or sources differ.
    """

    pair: Pair
    prompts: list[list[int]]
    texts: list[list[int]]
    sampling: Sampling
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_continued(self.pair, self.prompts, self.texts)
        if self.sources is not None and len(self.sources) != len(self.prompts):
            raise InputError(
                f"sources must name one for each of {len(self.prompts)} prompts, got {len(self.sources)}: repeat each "
                "source for each of its prompts"
            )
        if len(self.clusters) < 2:
            what = "prompts" if self.sources is None else "sources"
            raise InputError(
                f"{what} must be at least 2 different ones, got {len(self.clusters)}: an interval over {what} needs "
                "more than one"
            )

    @classmethod
    def of_trace(cls, folder: Path, pair: Pair | None = None) -> Self:
        """The texts of a trace.

        Args:
            folder: folder of the trace.
            pair: the pair that the trace was recorded with; None loads it as it was recorded.

        Raises:
            InputError: the folder holds no trace or a damaged one, it was recorded with another pair, or the pair is no
                longer in its folders.
        """
        texts = [text.tolist() for text in by_request(folder, "target_token")]
        stamp = stamp_of(folder)
        models = traced_pair(stamp) if pair is None else pair
        return cls(models, traced_prompts(folder, models)[: len(texts)], texts, Sampling.of(stamp))

    @cached_property
    def clusters(self) -> list[str]:
        """A hash of each different source or prompt, in order."""
        return list(dict.fromkeys(self.hashes))

    @cached_property
    def hashes(self) -> list[str]:
        """A hash of the source of each text, or of its prompt."""
        return [short_hash(one) for one in self.sources or self.prompts]

    @cached_property
    def identity(self) -> str:
        """A hash of all prompts and texts, and of the weights of the target."""
        return short_hash([self.prompts, self.texts, weights_hash(self.pair.target)])
