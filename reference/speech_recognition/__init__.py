"""Speech recognition: DeepSpeech 2 learns to write down what is said, with connectionist temporal classification."""
