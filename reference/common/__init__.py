"""Mechanics that all tasks share: events, clock, seeds, device, flags, data location, progress. It knows no task."""
