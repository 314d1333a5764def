"""Recommendation: NeuMF on MovieLens, hit rate at 10."""
