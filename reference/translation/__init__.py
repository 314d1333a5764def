"""Translation: the Transformer from English to German, token accuracy."""
