"""Draw the phantom (`python -m tools.phantom DIR`) and train on it (`python -m tools.vlm DIR`); not in the wheel."""
