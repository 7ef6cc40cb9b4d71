"""Checks of the DequantizeLinear nodes of a model: alone, with neighbours, within the whole model."""
