"""3D face recognition: a four-channel ResNet-50 names people from pictures of colour and depth."""
