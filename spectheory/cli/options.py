"""Options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from spectheory.cli.output import errors
from spectheory.core.checks import LARGEST_SEED, check_whole, is_digits
from spectheory.core.errors import InputError
from spectheory.core.files import read_text
from spectheory.core.record import parse
from spectheory.core.tree import Tree
from spectheory.planning.schedule_record import Schedule

if TYPE_CHECKING:
    from reference.models import PairFiles
    from reference.prompts import Prompt

Number = TypeVar("Number", int, float)
SHIPPED_LENGTH = 64
"""Number of tokens of each shipped prompt, whose files are cut anywhere."""

Count = Annotated[int, typer.Option("--count", help="Number of prompts to use.")]
Temperature = Annotated[float, typer.Option("--temperature", help="Sampling temperature; 0 is greedy decoding.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=LARGEST_SEED, help="Seed of all random numbers.")]
Explain = Annotated[bool, typer.Option("--explain", help="Print every row, note and assumption too.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
GpuName = Annotated[str, typer.Option("--gpu", help="Key or name of the GPU, such as h100_sxm; or own.csv, own.json.")]
TargetModel = Annotated[
    str,
    typer.Option(
        "--target",
        help="Name of a known model, its repository, or the path of a config.json or of its folder. A format may "
        "follow: llama-3.1-8b-fp8, -awq, -q4_k_m.",
    ),
]
Gpus = Annotated[int, typer.Option("--gpus", help="Number of GPUs that share each forward.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON instead of tables.")]


def names_of(option: str | None) -> list[str]:
    """The names that an option lists, with commas between them."""
    return [] if option is None else [name.strip() for name in option.split(",")]


def shape_in(option: str, text: str) -> tuple[int, int]:
    """Nodes and levels of what was drafted, at most 10,000: K is a chain of K tokens, NODES:LEVELS a tree."""
    nodes, _, levels = text.partition(":")
    counted = is_digits(nodes) and is_digits(levels or nodes)
    if not counted or not 1 <= int(levels or nodes) <= int(nodes) <= 10_000:
        raise InputError(f"{option} must be K, like 5, or NODES:LEVELS, like 60:6, at most 10,000, got {text!r:.60}")
    return int(nodes), int(levels or nodes)


def tree_in(file: Path) -> Tree:
    """The tree in a file: the first choice of a plan, or JSON with a parent array such as [-1, 0, 0].

    Raises:
        InputError: the file cannot be read or holds no tree.
    """
    held = parse(read_text(file), str(file))
    if isinstance(held, dict):
        return Schedule.from_dict(held, str(file)).option().tree
    try:
        return Tree(held)
    except (TypeError, ValueError) as error:
        raise InputError(f"{file} must hold a parent array such as [-1, 0, 0], or a plan: {error}") from error


@dataclass(frozen=True)
class PairOptions:
    """Options for the target and the draft, and for how they run."""

    target: Annotated[
        str | None,
        typer.Option(
            help="Target: a model folder, a GGUF file, or a model of the Hugging Face Hub, such as Qwen/Qwen2.5-0.5B.",
            show_default="shipped target",
        ),
    ] = None
    draft: Annotated[
        str | None,
        typer.Option(
            help="Draft: a model like the target, or the folder of a draft head. `compare` and `demo` run a target "
            "alone, with drafters that need no model.",
            show_default="shipped head, for the shipped target",
        ),
    ] = None
    device: Annotated[str, typer.Option(help="Device for both models, such as cpu, cuda or cuda:1.")] = "cpu"
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], typer.Option(help="Data type of weights and KV caches.")
    ] = "float32"

    def open(self, *, alone: bool = False) -> PairFiles:
        """Check the pair that the options name; `load` reads its weights. `alone`: a target may have no draft."""
        import torch

        from reference.model_folders import is_gguf, of_the_hub
        from reference.models import HEAD, TARGET, open_pair

        if self.target and not self.draft and not alone:
            raise InputError(
                "this command needs a draft beside --target: give --draft, or run drafters that need no model with "
                "`spectheory demo`"
            )
        for name in filter(None, (self.target, self.draft)):
            if is_gguf(name):
                errors.print(f"{name} is dequantised to {self.dtype}: engines that keep it quantised are faster")
            elif of_the_hub(name):
                errors.print(f"fetching {name} from the Hugging Face Hub, if it is not here yet")
        draft = self.draft or (None if self.target else HEAD)
        return open_pair(self.target or TARGET, draft, device=self.device, dtype=getattr(torch, self.dtype))


SHIPPED = PairOptions()


def numbers(option: str, text: str, kind: type[Number]) -> list[Number]:
    """The numbers in the value `text` of `option`, which are separated by commas."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InputError(f"{option} must be {what} with commas between them, got {text!r}") from None


@dataclass(frozen=True)
class PromptOptions:
    """Options for the prompts and for the length of the text after each prompt."""

    prompts: Annotated[
        Path | None,
        typer.Option(
            help="File of prompts: JSON Lines with a field 'text', or 'messages' for the model's chat template.",
            show_default="shipped prompts",
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Field of the prompts, such as category or id: prompts of one value are one cluster of all intervals.",
            show_default="each prompt is its own",
        ),
    ] = None
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of tokens of a prompt. Longer texts are cut, longer chats are refused.",
            show_default="64 for the shipped prompts, else none",
        ),
    ] = None
    new_tokens: Annotated[
        int, typer.Option(help="Maximum number of tokens to generate after each prompt; a text may end before.")
    ] = 128

    def read(self, skip: int, count: int, *, least_skip: int = 0) -> list[Prompt]:
        """`count` prompts, after the first `skip` prompts of the file. This needs no model.

        `least_skip` is the smallest `skip` that the command allows. Error messages use it.
        """
        from reference.prompts import HELD_OUT, load_prompts

        check_whole("--count", count, 1)
        if self.prompt_tokens is not None:
            check_whole("--prompt-tokens", self.prompt_tokens, 1)
        return load_prompts(self.prompts or HELD_OUT, count, skip, least_skip=least_skip)

    def encoded(self, pair: PairFiles, skip: int, count: int, *, least_skip: int = 0) -> list[list[int]]:
        """The token ids of the prompts that `read` reads."""
        from reference.prompts import encode_prompts

        longest = self.prompt_tokens or (None if self.prompts else SHIPPED_LENGTH)
        prompts = self.read(skip, count, least_skip=least_skip)
        return encode_prompts(pair, prompts, longest, skip, new_tokens=self.new_tokens)

    def sources(self, skip: int, count: int) -> tuple[str, ...]:
        """The value of the field `cluster` of each prompt that `read` reads; nothing if each is its own cluster."""
        from reference.prompts import HELD_OUT, load_sources

        self.read(skip, count)
        return load_sources(self.prompts or HELD_OUT, self.cluster, count, skip) if self.cluster else ()

    @property
    def dataset(self) -> str:
        """The name of the prompts in records."""
        return str(self.prompts or "shipped held-out prompts")


SHIPPED_PROMPTS = PromptOptions()


@dataclass(frozen=True)
class Reads:
    """In the annotation of an option that is a path: the command gets what this function reads there."""

    function: Callable[[Path], Any]


def with_groups(command: Callable[..., Any]) -> Callable[..., None]:
    """Wrap `command` for Typer: its options are given one by one, and it takes groups of options and records.

    A parameter annotated with a group becomes the options of that group. The defaults come from the parameter's
    default, if it has one, otherwise from the group. A parameter annotated with `Reads` becomes an option of a path,
    which is read before the command is called. A group called `output` writes what the command returns; it checks what
    it will write before anything is read.
    """
    hints = typing.get_type_hints(command, include_extras=True)
    hints.pop("return")
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    readers = {name: one for name, hint in hints.items() for one in metadata_of(hint) if isinstance(one, Reads)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _options_of(groups[name], parameter.default)
            continue
        if name in readers:
            path = Path if parameter.default is inspect.Parameter.empty else Path | None
            hints[name] = Annotated[path, *metadata_of(hints[name])]
        parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        output, paths = given.get("output"), {name: given[name] for name in readers if given[name] is not None}
        if output:
            output.check(paths.values())
        answer = command(**given | {name: readers[name].function(path) for name, path in paths.items()})
        if output:
            output.write(answer, paths.values())

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def metadata_of(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


def _options_of(group: Any, default: Any) -> Iterator[inspect.Parameter]:
    hints = typing.get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        value = field.default if default is inspect.Parameter.empty else getattr(default, field.name)
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=hints[field.name])
