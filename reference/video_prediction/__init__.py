"""Video prediction: the next frames of a robot that pushes objects, from its actions. See README.md."""
