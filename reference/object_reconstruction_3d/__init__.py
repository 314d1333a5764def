"""Object reconstruction: the voxels of an object from one picture of it. See README.md."""
