"""Check of the DequantizeLinear nodes of a model: each alone, with its neighbours, and within the whole model."""
