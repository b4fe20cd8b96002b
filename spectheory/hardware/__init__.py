"""GPUs, models, and the seconds of a forward of a model on a GPU: measured, or computed by a roofline."""
