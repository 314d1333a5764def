"""Image generation: a WGAN with clipped weights, judged by the Fréchet distance of fixed features."""
