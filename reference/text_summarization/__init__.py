"""Text summarization: attention with a pointer, from a sentence to its headline, ROUGE-L."""
