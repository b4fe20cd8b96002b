"""Records of measured and simulated runs, and their comparison with predictions."""
