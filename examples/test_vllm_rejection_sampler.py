"""The rejection sampler of vLLM (needs vLLM 0.33 and Triton), and copies of its file with planted faults."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from spectheory.certify import vllm_play
from spectheory.core.world import World

torch = pytest.importorskip("torch")
vllm = pytest.importorskip("vllm.v1.sample.rejection_sampler", exc_type=ImportError)
ONES = torch.ones(64, device="cuda" if torch.cuda.is_available() else "cpu")
P = np.array([0.5, 0.2, 0.2, 0.1])
GREEDY = World(lambda context: np.eye(4)[0], lambda context: P[::-1])
FAULTS = {
    "one coin for all positions of a row": ("uniform_probs_ptr + start_idx + pos", "uniform_probs_ptr + start_idx"),
    "coins repeat in every call": ("    start_idx = 0\n", "    start_idx = 0\n    torch.manual_seed(0)\n"),
    "accepts by p, not by p / q": ("target_prob / draft_prob >= uniform_prob", "target_prob >= uniform_prob"),
    "q is at most 0.5": ("target_prob / draft_prob", "target_prob / tl.minimum(draft_prob, 0.5)"),
    "goes on after a rejection": ("rejected = True", "rejected = False"),
    "p of the position before": ("target_probs_ptr + (start_idx + pos)", "target_probs_ptr + (start_idx + pos // 2)"),
    "the correction has the distribution p": ("tl.maximum(target_prob - draft_prob, 0.0)", "target_prob"),
    "the correction is the largest p - q": ("score = prob * inv_q", "score = prob"),
    "the correction is from the first block": ("range(0, vocab_size, BLOCK_SIZE)", "range(0, BLOCK_SIZE, BLOCK_SIZE)"),
    "the correction is an id within its block": ("recovered_id = v + local_id", "recovered_id = local_id"),
    "the correction of the first row": ("recovered_token_ids_ptr + start_idx + pos", "recovered_token_ids_ptr + pos"),
    "all rows share the noise of corrections": ("inv_q_ptr + req_idx * vocab_size", "inv_q_ptr"),
    "the bonus is the last draft": ("bonus_token_ids_ptr + req_idx)", "draft_token_ids_ptr + end_idx - 1)"),
    "ids have 16 bits": ("token_id = draft_token_id\n", "token_id = draft_token_id.to(tl.int16)\n"),
    "n-grams: a rejected token comes back": ("(vocab_mask & (vocab_offset != draft_token_id))", "vocab_mask"),
    "greedy: rows are sampled": ("temperature == GREEDY_TEMPERATURE", "temperature < GREEDY_TEMPERATURE"),
}


def plays(module, kind):
    """Plays of `rejection_sample` with random numbers; with n-gram drafts, without q; or at temperature 0."""
    temperature = 0 * ONES if kind == "greedy" else ONES
    metadata = {"all_greedy": False, "all_random": kind != "greedy", "temperature": temperature, "generators": {}}

    def sample(inputs, rng):
        x = inputs.converted(lambda array: torch.from_numpy(array).to(ONES.device))
        first = x.draft_token_ids, x.num_draft_tokens, x.max_spec_len, x.cu_num_draft_tokens, x.draft_probs
        return module.rejection_sample(*first, x.target_logits, x.bonus_token_ids, type("", (), metadata)).cpu()

    if kind == "greedy":
        return vllm_play(sample, GREEDY, vocab_size=4, depth=2, length=3, batch=4, given=lambda context: P)
    return vllm_play(sample, depth=2, length=3, batch=4, one_hot=kind == "n-grams")


@pytest.mark.parametrize("kind", ["random", "n-grams", "greedy"])
def test_rejection_sampler(assert_step, kind):
    torch.manual_seed(0)
    print(*assert_step(plays(vllm, kind), tv=0.15).lines(), sep="\n")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_copy_of_the_file_is_found(assert_step, tmp_path, fault):
    old, new = FAULTS[fault]
    source = Path(vllm.__file__).read_text(encoding="utf-8")
    assert old in source, "another version of vLLM: adapt the fault"
    file = tmp_path / "copy.py"
    file.write_text(source.replace(old, new), encoding="utf-8")
    spec = spec_from_file_location("copy_of_vllm", file)
    copied = module_from_spec(spec)
    spec.loader.exec_module(copied)
    torch.manual_seed(0)
    with pytest.raises(AssertionError, match="LOSSY") as raised:
        assert_step(plays(copied, fault.partition(":")[0]), tv=0.15)
    print(raised.value)
