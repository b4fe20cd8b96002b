"""The reference decoder: real Hugging Face models, tree attention, measurement and training."""
