"""The rejection sampler of vLLM's V1 engine (needs vLLM 0.33), with ids in all blocks of its kernel."""

import pytest

from spectheory.certify import vllm_play

torch = pytest.importorskip("torch")
vllm = pytest.importorskip("vllm.v1.sample.rejection_sampler", exc_type=ImportError)
ONES = torch.ones(64, device="cuda" if torch.cuda.is_available() else "cpu")
RANDOM = {"all_greedy": False, "all_random": True, "temperature": ONES, "generators": {}}


@pytest.mark.parametrize("hot", [False, True])
def test_rejection_sampler(assert_step, hot):
    def sample(inputs, rng):
        x = inputs.converted(lambda array: torch.from_numpy(array).to(ONES.device))
        first = x.draft_token_ids, x.num_draft_tokens, x.max_spec_len, x.cu_num_draft_tokens, x.draft_probs
        return vllm.rejection_sample(*first, x.target_logits, x.bonus_token_ids, type("", (), RANDOM)).cpu()

    assert_step(vllm_play(sample, depth=2, length=3, one_hot=hot), tv=0.15)
