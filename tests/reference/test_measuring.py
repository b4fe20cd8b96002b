"""Trace, profile, measurement and training on a tiny random pair: results, resuming, bad input."""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from reference import tracing
from reference.decode import Decoder
from reference.drafters import PlannedTree
from reference.measuring import decoded
from reference.models import Pair, load_pair
from reference.prompts import encode_prompts, load_prompts
from spectheory import Acceptance, Latency, Provenance, Tree, evaluate
from tests.helpers import refuses

SETTINGS = tracing.TraceSettings(dataset="numbers", candidates=4, new_tokens=40, batch=2)
PROMPTS = [[10 * i + j for j in range(8)] for i in range(1, 6)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_measurement_counts_what_was_decoded(tiny: Pair, temperature: float) -> None:
    rates = replace(Acceptance.by_rank([0.6, 0.2]), provenance=Provenance("made here", temperature=temperature))
    plan = evaluate(Tree.k_ary(2, 2), rates, Latency.constant())
    total = decoded(tiny, plan, PROMPTS[:3], new_tokens=16)
    assert len(total.cycles) == 3
    assert (total.compared, total.identical) == ((3, 3) if temperature == 0 else (0, 0))
    assert total.seconds > total.target_seconds + total.draft_seconds > 0
    assert total.speedup is not None
    assert total.fourgrams > 0
    again = decoded(tiny, plan, PROMPTS[:3], new_tokens=16)
    assert again.emitted.tolist() == total.emitted.tolist()


def test_folders_that_are_no_pair_are_refused(tiny_folders: Path, tmp_path: Path) -> None:
    target, draft = tiny_folders / "target", tiny_folders / "draft"
    refuses("target folder .*absent holds no config.json", load_pair, tmp_path / "absent", draft)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "config.json").write_text(json.dumps({"model_type": "t5"}))
    refuses("draft folder .*foreign has no tokenizer", load_pair, target, foreign)
    headless = tmp_path / "headless"
    shutil.copytree(target, headless)
    weights = load_file(headless / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "mlp" not in name}
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    refuses("headless lacks the weights model.layers.0.mlp.* and so is damaged", load_pair, target, headless)
    (foreign / "config.json").write_text("{")
    refuses("draft .*foreign cannot be loaded", load_pair, target, foreign)
    other = tmp_path / "other"
    shutil.copytree(draft, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab["!"], vocab['"'] = vocab['"'], vocab["!"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    refuses("vocabularies differ: .* share one tokenizer, but '.' is token .*: use a draft", load_pair, target, other)


def test_prompts_that_cannot_be_are_refused(tiny: Pair, tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"text": "import os"}\n{"txt": 1}\n')
    refuses("line 2 must be a JSON object with a field 'text', .* or 'messages'", load_prompts, file)
    file.write_text('{"text": "import os"}\n')
    refuses("prompts must be between 1 and 1 .*, got 2 .*: give --count 1$", load_prompts, file, 2)
    repair = r"got 40 \(given, or the default\): give --skip 0 --count 1$"
    refuses(rf"\(.* has 1 prompts\), {repair}", load_prompts, file, 20, 40)
    file.write_text('{"text": "import os"}\n' * 3)
    with pytest.raises(ValueError, match=r"between 1 and 2 \(.* has 3 prompts\), got 40 .*: give --skip 1 --count 2$"):
        load_prompts(file, 20, 40, least_skip=1)
    refuses("prompt tokens must be at least 1, got 0", encode_prompts, tiny, load_prompts(file), 0)
    refuses(
        "prompt 7 of the file, .* has .* tokens and 1020 follow, .* 1024: leave",
        encode_prompts,
        tiny,
        ["import os"],
        None,
        7,
        new_tokens=1020,
    )
    wrongs = ('"text": 5', '"text": ""', '"text": ["import os"]', '"messages": []', '"messages": [{"role": "user"}]')
    for wrong in wrongs:
        file.write_text('{"text": "import os"}\n\n{' + wrong + "}\n")
        refuses("line 3 must be a JSON object with a field 'text'", load_prompts, file)
    file.write_text('{"text": "a\u2028b"}\n\n', encoding="utf-8")
    assert load_prompts(file) == ["a\u2028b"]
    messages = [{"role": "user", "content": "Hi"}]
    file.write_text(json.dumps([{"text": "a"}, {"messages": messages}], indent=1), encoding="utf-8-sig")
    assert load_prompts(file) == ["a", messages]
    file.write_text('[{"text": "a"}, {"messages": []}]')
    refuses("entry 2 must be a JSON object with a field 'text'", load_prompts, file)


TEMPLATE = (
    "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}{% if add_generation_prompt %}!{% endif %}"
)


def test_a_chat_is_encoded_whole_by_the_models_template(tiny: Pair, tmp_path: Path) -> None:
    """A text is cut to the maximum, a chat is not; each prompt has its own length."""
    messages = [{"role": "user", "content": "import os"}]
    file = tmp_path / "prompts.jsonl"
    file.write_text(json.dumps({"messages": messages}) + '\n{"text": "import os, sys, json"}\n')
    prompts = load_prompts(file)
    refuses(
        "prompt 3 .* has messages, but target .*target has no chat template", encode_prompts, tiny, prompts, None, 3
    )
    chatty = replace(tiny, tokenizer=deepcopy(tiny.tokenizer))
    chatty.tokenizer.chat_template = TEMPLATE
    chat, text = encode_prompts(chatty, prompts)
    assert chatty.tokenizer.decode(chat) == "<user>import os!"
    assert chatty.tokenizer.decode(text) == "import os, sys, json"
    refuses(
        f"prompt 0 .* is a chat of {len(chat)} tokens, --prompt-tokens allows 3", encode_prompts, chatty, prompts, 3
    )
    assert encode_prompts(chatty, prompts[1:], 3) == [text[:3]]
    chatty.tokenizer.chat_template = "{{ raise_exception('users only') }}"
    refuses("prompt 0 .* does not suit the chat template .*users only.: change", encode_prompts, chatty, prompts)


def test_a_padded_output_layer_is_cut(tiny: Pair, tiny_folders: Path) -> None:
    """A draft whose output layer has more entries than the tokenizer drafts and verifies as before."""
    padded = load_pair(tiny_folders / "target", tiny_folders / "draft", dtype=torch.float64)
    assert isinstance(padded.draft, PreTrainedModel)
    padded.draft.resize_token_embeddings(320)
    assert padded.vocab_size == 300
    tree, prompt = Tree.k_ary(2, 2), PROMPTS[0]
    texts = [Decoder(pair, PlannedTree(tree)).generate(prompt, 30) for pair in (padded, tiny)]
    assert texts[0].accepted == texts[1].accepted
