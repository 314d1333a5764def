"""Object detection: Faster R-CNN, a region proposal network and a classifier of its regions, in plain torch."""
