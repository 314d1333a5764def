"""Neural architecture search: ENAS on a language model's recurrent cell, perplexity of the derived cell."""
