"""GPUs, models and what a forward takes on them: measured, or computed by a roofline."""
