"""Learning to rank: ranking distillation with Caser, precision at 10 of the student."""
