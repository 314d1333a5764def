"""Image to image: street photos to label maps with CycleGAN, from pictures that are not paired."""
