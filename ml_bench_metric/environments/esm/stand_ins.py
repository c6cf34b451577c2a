"""Makes stand-ins for what the references of ESM read: weights in the cache of torch.hub, sequences and structures.

Runs in the repository's folder. The weights are random; the loader takes a model's widths from its file, so that every
model here is thin, but has its real number of layers, since programs ask for a layer by its number.
"""

from __future__ import annotations

import math
import os
import random
from argparse import Namespace
from pathlib import Path

import esm
import esm.inverse_folding
import torch
from esm.model.esm1 import ProteinBertModel
from esm.model.esm2 import ESM2
from esm.model.msa_transformer import MSATransformer

CHECKPOINTS = Path(torch.hub.get_dir(), "checkpoints")

ESM2_LAYERS = {
    "esm2_t6_8M_UR50D": 6,
    "esm2_t12_35M_UR50D": 12,
    "esm2_t30_150M_UR50D": 30,
    "esm2_t33_650M_UR50D": 33,
    "esm2_t36_3B_UR50D": 36,
    "esm2_t48_15B_UR50D": 48,
}
ESM1V = tuple(f"esm1v_t33_650M_UR90S_{number}" for number in range(1, 6))
MSA1B = "esm_msa1b_t12_100M_UR50S"
INVERSE_FOLDING = "esm_if1_gvp4_t16_142M_UR50"

WIDTH, HEADS = 16, 2
POSITIONS = 1024

FASTA_FILES = ("cov19.fasta", "dna_virus.fasta", "rna.fasta")
PDB_FILES = ("Fam20A.pdb", "Fam20B.pdb")
AMINO_ACIDS = {"A": "ALA", "E": "GLU", "G": "GLY", "K": "LYS", "L": "LEU", "S": "SER", "T": "THR", "V": "VAL"}

BACKBONE = {"N": (1.55, -0.3, -0.9), "CA": (2.28, 0.0, 0.0), "C": (1.66, 0.45, 1.1), "O": (2.0, 0.5, 2.3)}
"""Atom -> radius (A), angle (radians) and height (A) in an alpha helix, where its residue has angle and height 0."""


def main() -> None:
    """Write the weights into the cache and the files into the repository's folder."""
    torch.manual_seed(0)
    random.seed(0)
    CHECKPOINTS.mkdir(parents=True)
    for name, layers in ESM2_LAYERS.items():
        save_esm2(name, layers)
    save_esm1v()
    save_msa1b()
    save_inverse_folding()
    for name in FASTA_FILES:
        lines = (f">sequence_{number}\n{sequence(60)}\n" for number in range(3))
        Path(name).write_text("".join(lines), encoding="utf-8")
    for name in PDB_FILES:
        Path(name).write_text(structure(("A", "B", "C"), 24), encoding="utf-8")
    # Tasks call it by its bare name; the repository has it elsewhere.
    os.link("examples/inverse_folding/data/5YH2.pdb", "5YH2.pdb")


def save(name: str, content: dict[str, object]) -> None:
    """Write a checkpoint under the name that torch.hub looks for."""
    torch.save(content, CHECKPOINTS / f"{name}.pt")


def save_regression(name: str, state: dict[str, torch.Tensor]) -> None:
    """Write the weights of contact prediction, which lie in a file of their own."""
    contacts = {key: value for key, value in state.items() if key.startswith("contact_head.")}
    save(f"{name}-contact-regression", {"model": contacts})


def without_regression(state: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Return the other weights, named as in the released files."""
    return {prefix + key: value for key, value in state.items() if not key.startswith("contact_head.")}


def save_esm2(name: str, layers: int) -> None:
    """Write a model of the ESM-2 family."""
    alphabet = esm.Alphabet.from_architecture("ESM-1b")
    model = ESM2(layers, WIDTH, HEADS, alphabet, token_dropout=True)
    config = Namespace(
        encoder_layers=layers, encoder_embed_dim=WIDTH, encoder_attention_heads=HEADS, token_dropout=True
    )
    state = model.state_dict()
    save(name, {"cfg": {"model": config}, "model": without_regression(state, "encoder.sentence_encoder.")})
    save_regression(name, state)


def save_esm1v() -> None:
    """Write one model of the ESM-1v ensemble, under the five names. It has no weights of contact prediction."""
    sizes = {"layers": 33, "embed_dim": WIDTH, "ffn_embed_dim": 4 * WIDTH, "attention_heads": HEADS}
    settings = {**sizes, "max_positions": POSITIONS, "token_dropout": True}
    alphabet = esm.Alphabet.from_architecture("roberta_large")
    model = ProteinBertModel(Namespace(arch="roberta_large", emb_layer_norm_before=True, **settings), alphabet)
    arguments = Namespace(arch="roberta_large", **{f"encoder_{key}": value for key, value in settings.items()})
    state = without_regression(model.state_dict(), "encoder.sentence_encoder.")
    save(ESM1V[0], {"args": arguments, "model": state})
    for name in ESM1V[1:]:
        os.link(CHECKPOINTS / f"{ESM1V[0]}.pt", CHECKPOINTS / f"{name}.pt")


def save_msa1b() -> None:
    """Write the model for alignments. The released file has rows and columns under each other's names."""
    sizes = {"layers": 12, "embed_dim": WIDTH, "ffn_embed_dim": 4 * WIDTH, "attention_heads": HEADS}
    rates = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
    settings = {**sizes, **rates, "max_positions": POSITIONS, "embed_positions_msa": True}
    alphabet = esm.Alphabet.from_architecture("msa_transformer")
    model = MSATransformer(Namespace(embed_positions_msa_dim=WIDTH, max_tokens=2**14, **settings), alphabet)
    state = model.state_dict()
    named = {swapped(key): value for key, value in without_regression(state, "encoder.sentence_encoder.").items()}
    arguments = Namespace(
        arch="msa_transformer", max_tokens=2**14, **{f"encoder_{key}": value for key, value in settings.items()}
    )
    save(MSA1B, {"args": arguments, "model": named})
    save_regression(MSA1B, state)


def swapped(key: str) -> str:
    """Return a weight's name with `row` and `column` exchanged."""
    return key.replace("row", "column") if "row" in key else key.replace("column", "row")


def save_inverse_folding() -> None:
    """Write a model that designs sequences for a structure."""
    arguments = Namespace(
        arch="invariant_gvp",
        dropout=0.1,
        attention_dropout=0.1,
        encoder_embed_dim=64,
        encoder_ffn_embed_dim=128,
        encoder_layers=2,
        encoder_attention_heads=4,
        decoder_embed_dim=64,
        decoder_ffn_embed_dim=128,
        decoder_layers=2,
        decoder_attention_heads=4,
        gvp_node_hidden_dim_scalar=32,
        gvp_node_hidden_dim_vector=8,
        gvp_edge_hidden_dim_scalar=32,
        gvp_edge_hidden_dim_vector=1,
        gvp_num_encoder_layers=1,
        gvp_dropout=0.1,
        gvp_top_k_neighbors=30,
    )
    alphabet = esm.Alphabet.from_architecture("invariant_gvp")
    model = esm.inverse_folding.gvp_transformer.GVPTransformerModel(arguments, alphabet)
    state = model.state_dict()
    for key, value in state.items():
        if key.endswith("_float_tensor"):
            value.zero_()  # only its type is ever used; the repository leaves in it what the memory held
    save(INVERSE_FOLDING, {"args": arguments, "model": state})


def sequence(length: int) -> str:
    """Return a random protein as one-letter codes."""
    return "".join(random.choices(tuple(AMINO_ACIDS), k=length))


def structure(chains: tuple[str, ...], length: int) -> str:
    """Return parallel alpha helices of random residues in PDB format, backbone only."""
    lines: list[str] = []
    for position, chain in enumerate(chains):
        for residue, letter in enumerate(sequence(length)):
            for atom, (radius, angle, height) in BACKBONE.items():
                turn = math.radians(100) * residue + angle
                x, y, z = radius * math.cos(turn) + 12 * position, radius * math.sin(turn), 1.5 * residue + height
                lines.append(
                    f"ATOM  {len(lines) + 1:5d}  {atom:<3s} {AMINO_ACIDS[letter]} {chain}{residue + 1:4d}    "
                    f"{x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00           {atom[0]}"
                )
    return "\n".join([*lines, "END", ""])


if __name__ == "__main__":
    main()
