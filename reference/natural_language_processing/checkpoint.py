"""First weights from a file: BERT's tensors under the names that `transformers` gives them in BertForPreTraining."""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from reference.common.errors import SetupError

OUTER = {
    "words": "bert.embeddings.word_embeddings",
    "places": "bert.embeddings.position_embeddings",
    "segments": "bert.embeddings.token_type_embeddings",
    "norm": "bert.embeddings.LayerNorm",
    "pooler": "bert.pooler.dense",
    "next_sentence": "cls.seq_relationship",
    "transform": "cls.predictions.transform.dense",
    "transform_norm": "cls.predictions.transform.LayerNorm",
}
LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}


def their_name(name: str) -> str:
    """The name in `transformers` of one of our tensors."""
    if name == "output_bias":
        return "cls.predictions.bias"
    part, _, rest = name.partition(".")
    if part == "layers":
        number, inside, kind = rest.split(".")
        return f"bert.encoder.layer.{number}.{LAYER[inside]}.{kind}"
    return f"{OUTER[part]}.{rest}"


def copy(net: nn.Module, theirs: dict[str, Tensor], file: str) -> None:
    """Copy the tensors of `theirs` into `net`. Raises SetupError, naming `file`, for missing ones and wrong shapes."""
    own = net.state_dict()
    try:
        names = {name: their_name(name) for name in own}
    except KeyError as error:
        raise SetupError(f"{file}: BERT has no {error.args[0]!r}; only BERT's own network starts from a file") from None
    missing = [name for name in names.values() if name not in theirs]
    if missing:
        raise SetupError(f"{file}: {len(missing)} tensors of BertForPreTraining are missing, first {missing[0]}")
    for name, their in names.items():
        if theirs[their].shape != own[name].shape:
            shapes = f"{tuple(theirs[their].shape)}, expected {tuple(own[name].shape)}"
            raise SetupError(f"{file}: {their} has the shape {shapes}")
    net.load_state_dict({name: theirs[their] for name, their in names.items()})


def load(net: nn.Module, path: Path) -> None:
    """Start `net` from a file written by torch.save(BertForPreTraining(...).state_dict()). Tensors only, no code."""
    try:
        theirs = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise SetupError(f"{path.name}: cannot be read as torch.save's file: {str(error).splitlines()[0]}") from None
    if not isinstance(theirs, dict) or not all(isinstance(value, Tensor) for value in theirs.values()):
        raise SetupError(f"{path.name}: expected the tensors of a BertForPreTraining by name")
    copy(net, theirs, path.name)
