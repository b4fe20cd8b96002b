"""Training of the shipped draft head on the target's own texts."""

from __future__ import annotations

import shutil
from pathlib import Path

from reference.losses import Eagle, Eagle3
from reference.model_folders import WEIGHTS
from reference.models import load_pair
from reference.part_files import STAMP
from reference.prompts import training_texts
from reference.train.head import RECORD, STARTED_RATE, HeadRecipe, head_config, train_head
from reference.train.own_texts import OwnTexts, TextSettings, write_own_texts
from reference.train.recipe import Recipe
from reference.train.stages import Stage

CONFIG = "config.json"


def train_shipped_head(folder: Path, work: Path, recipe: Recipe, stage: Stage) -> None:
    """Train the head for the target in `folder`, and write it there as `head`.

    The folder `work` holds the texts and the checkpoints: after an interruption, the same call continues. `stage`
    reports three stages: writing the texts, training a first head, and training the final head from it.
    """
    how, pair = recipe.head, load_pair(folder / "target", folder / "draft")
    prompt, new = min(64, recipe.length // 4), min(192, recipe.length // 2)
    settings = TextSettings(rows=how.texts, prompt_tokens=prompt, new_tokens=new, seed=recipe.seed)
    with stage("texts") as done:
        write_own_texts(pair, training_texts(pair), settings, work / "texts", done)
    texts, config = OwnTexts(work / "texts"), head_config(pair.target, "eagle1", intermediate_size=how.hidden)
    with stage("start of the head") as done:
        train_head(
            pair, texts, work / "start", HeadRecipe(Eagle(), how.start_steps, how.rows, recipe.seed), config, done
        )
    started = load_pair(folder / "target", work / "start")
    chained = HeadRecipe(Eagle3(passes=how.passes), how.steps, how.rows, recipe.seed, STARTED_RATE)
    with stage("head") as done:
        train_head(started, texts, work / "head", chained, done=done)
    (folder / "head").mkdir(exist_ok=True)
    for name in (CONFIG, WEIGHTS, STAMP, RECORD):
        shutil.copyfile(work / "head" / name, folder / "head" / name)
