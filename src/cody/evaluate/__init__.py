"""Comparing explainers: which links to explain, and how good the explanations are."""
