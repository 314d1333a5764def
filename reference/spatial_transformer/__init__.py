"""Spatial transformer: classify digits that are rotated, scaled, shifted and cluttered."""
