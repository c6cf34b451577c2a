"""Generates data sets for DGL's examples: the real names and layouts, random graphs of a few hundred nodes.

Features and classes are as many as in the real ones, wherever an example or DGL itself counts on their number.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pickle
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import numpy as np
import scipy.io
import scipy.sparse
import torch
from sklearn.datasets import load_digits

DOWNLOADS = Path.home() / ".dgl"
EXAMPLES = Path("examples/pytorch")

CITATIONS = {"cora_v2": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3)}
"""Data set -> features, classes. Each class has 20 nodes to train with, and 500 nodes validate."""
CITATION_NODES = 1000
CITATION_TEST = 300

FRAUD = {
    "amazon": ("Amazon.mat", "FraudAmazon", 25, ("net_upu", "net_usu", "net_uvu")),
    "yelp": ("YelpChi.mat", "FraudYelp", 32, ("net_rsr", "net_rtr", "net_rur")),
}
"""Data set -> file, archive, features, relations."""
UNLABELLED = 3305
"""Nodes of `amazon` that have no label; DGL leaves out the first so many."""

CO_PURCHASES = {
    "coauthor_cs": (6805, 15),
    "coauthor_physics": (8415, 5),
    "amazon_co_buy_computer": (767, 10),
    "amazon_co_buy_photo": (745, 8),
}
"""Data set -> features, classes."""

OGB = {
    "arxiv": (128, 40, "time", ("node_year",)),
    "products": (100, 47, "sales_ranking", ()),
}
"""Folder of a data set -> features, classes, name of its split, further files."""

TRAFFIC = {"metr_la": ("graph_la.bin", 207), "pems_bay": ("graph_bay.bin", 325)}
"""Data set -> file of its graph, sensors."""


def random(name: str) -> np.random.Generator:
    """Return the random numbers of a data set; its name is the seed, so that none depends on the others."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def download_folder(name: str, url: str) -> Path:
    """Make and return the folder of DGL's downloads where it looks for a data set before it asks the URL."""
    folder = DOWNLOADS / f"{name}_{hashlib.sha1(url.encode()).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def edges(rng: np.random.Generator, nodes: int, further: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return sources and targets of a ring, which reaches every node, with some further edges per node."""
    ring = np.arange(nodes)
    sources = np.concatenate([ring, np.repeat(ring, further)])
    targets = np.concatenate([np.roll(ring, 1), rng.integers(0, nodes, further * nodes)])
    return sources, targets


def adjacency(rng: np.random.Generator, nodes: int) -> scipy.sparse.csr_matrix:
    """Return such edges as a matrix."""
    sources, targets = edges(rng, nodes)
    return scipy.sparse.csr_matrix((np.ones(len(sources)), (sources, targets)), shape=(nodes, nodes))


def words(rng: np.random.Generator, nodes: int, features: int) -> scipy.sparse.csr_matrix:
    """Return bags of words of shape (nodes, features), some ten of the words in each."""
    return scipy.sparse.random(nodes, features, density=10 / features, format="csr", random_state=rng).ceil()


def citation(name: str, features: int, classes: int) -> None:
    """Write a citation network as pickled matrices; the last nodes are the test's, in a mixed order."""
    rng = random(name)
    folder = download_folder(name, f"https://data.dgl.ai/dataset/{name}.zip")
    bags = words(rng, CITATION_NODES, features)
    one_hot = np.eye(classes, dtype=np.int32)[np.arange(CITATION_NODES) % classes]
    graph: dict[int, list[int]] = {node: [] for node in range(CITATION_NODES)}
    for source, target in zip(*edges(rng, CITATION_NODES)):
        graph[int(source)].append(int(target))
        graph[int(target)].append(int(source))
    train, test = 20 * classes, CITATION_NODES - CITATION_TEST
    parts = {
        "x": bags[:train],
        "tx": bags[test:],
        "allx": bags[:test],
        "y": one_hot[:train],
        "ty": one_hot[test:],
        "ally": one_hot[:test],
        "graph": graph,
    }
    for part, value in parts.items():
        with (folder / f"ind.{name}.{part}").open("wb") as stream:
            pickle.dump(value, stream)
    order = rng.permutation(np.arange(test, CITATION_NODES))
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in order), encoding="utf-8")


def fraud(name: str, file: str, archive: str, features: int, relations: Iterable[str]) -> None:
    """Write a data set of reviews: one adjacency matrix per relation."""
    rng = random(name)
    folder = download_folder(name, f"https://data.dgl.ai/dataset/{archive}.zip")
    nodes = 500 + (UNLABELLED if name == "amazon" else 0)
    content: dict[str, object] = {relation: adjacency(rng, nodes) for relation in relations}
    content["homo"] = adjacency(rng, nodes)
    content["features"] = scipy.sparse.csr_matrix(rng.random((nodes, features)))
    content["label"] = (rng.random(nodes) < 0.15).astype(np.float64)[None, :]
    scipy.io.savemat(folder / file, content, do_compression=True)


def co_purchase(name: str, features: int, classes: int) -> None:
    """Write a graph with bags of words as the parts of its matrices."""
    rng = random(name)
    nodes = 300
    links, bags = adjacency(rng, nodes), words(rng, nodes, features)
    np.savez_compressed(
        download_folder(name, f"https://data.dgl.ai/dataset/{name}.zip") / f"{name}.npz",
        adj_data=links.data,
        adj_indices=links.indices,
        adj_indptr=links.indptr,
        adj_shape=links.shape,
        attr_data=bags.data,
        attr_indices=bags.indices,
        attr_indptr=bags.indptr,
        attr_shape=bags.shape,
        labels=np.arange(nodes) % classes,
    )


def wiki_cs() -> None:
    """Write the graph of articles, with its twenty splits: a tenth trains, a tenth each validates and stops."""
    rng = random("wiki_cs")
    nodes, features, classes, splits = 400, 300, 10, 20
    links: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in zip(*edges(rng, nodes)):
        links[int(source)].append(int(target))
    masks: dict[str, list[list[bool]]] = {"train_masks": [], "val_masks": [], "stopping_masks": []}
    for _ in range(splits):
        tenth = rng.permutation(np.arange(nodes) % 10)
        for part, mask in enumerate(masks.values()):
            mask.append((tenth == part).tolist())
    content = {
        "features": rng.normal(0, 1, (nodes, features)).round(3).tolist(),
        "labels": (np.arange(nodes) % classes).tolist(),
        "links": links,
        "test_mask": (rng.random(nodes) < 0.5).tolist(),
        **masks,
    }
    folder = download_folder("wiki_cs", "https://data.dgl.ai/dataset/wiki_cs.zip")
    (folder / "data.json").write_text(json.dumps(content), encoding="utf-8")


def proteins() -> None:
    """Write DD, small graphs in two classes with a label per node, as the text files of the TU collection."""
    rng = random("DD")
    graphs, labels = 80, 89
    folder = download_folder("DD", "https://www.chrsmrrs.com/graphkerneldatasets/DD.zip") / "DD"
    folder.mkdir(exist_ok=True)
    pairs: list[str] = []
    graph_of: list[int] = []
    for graph in range(1, graphs + 1):
        first, nodes = len(graph_of) + 1, int(rng.integers(10, 30))
        for source, target in zip(*edges(rng, nodes)):
            pairs += [f"{first + source}, {first + target}", f"{first + target}, {first + source}"]
        graph_of += [graph] * nodes
    files: dict[str, Iterable[object]] = {
        "A": pairs,
        "graph_indicator": graph_of,
        "graph_labels": (graph % 2 + 1 for graph in range(graphs)),
        "node_labels": (node % labels + 1 for node in range(len(graph_of))),
    }
    for name, lines in files.items():
        (folder / f"DD_{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def ogb(name: str, features: int, classes: int, split: str, further: Iterable[str]) -> None:
    """Write a data set of the Open Graph Benchmark, as ogb unpacks it: compressed tables without headings."""
    rng = random(f"ogbn {name}")
    nodes = 1000
    sources, targets = edges(rng, nodes)
    parts = np.split(rng.permutation(nodes), [nodes // 2, nodes * 3 // 4])
    folder = EXAMPLES / "correct_and_smooth" / "dataset" / name
    for inner in ("raw", "processed", f"split/{split}"):
        (folder / inner).mkdir(parents=True, exist_ok=True)
    (folder / "RELEASE_v1.txt").touch()

    def table(file: str, values: np.ndarray, form: str = "%d") -> None:
        # Without a time of writing in it, the same file every time.
        with gzip.GzipFile(folder / f"{file}.csv.gz", "wb", mtime=0) as stream:
            np.savetxt(stream, values, fmt=form, delimiter=",")

    table("raw/edge", np.stack([sources, targets], axis=1))
    table("raw/num-node-list", np.array([nodes]))
    table("raw/num-edge-list", np.array([len(sources)]))
    table("raw/node-feat", rng.normal(0, 1, (nodes, features)), "%.3f")
    table("raw/node-label", np.arange(nodes) % classes)
    for file in further:
        table(f"raw/{file}", rng.integers(2010, 2020, nodes))
    for part, indices in zip(("train", "valid", "test"), parts):
        table(f"split/{split}/{part}", np.sort(indices))


def traffic(name: str, graph_file: str, sensors: int) -> None:
    """Write speeds at sensors of shape (windows, 12 steps, sensors, speed and time of day), and their graph."""
    rng = random(name)
    folder = EXAMPLES / "dtgrnn" / "data"
    folder.mkdir(exist_ok=True)
    graph = dgl.graph(edges(rng, sensors), num_nodes=sensors)
    graph.edata["weight"] = torch.ones(graph.num_edges())
    dgl.save_graphs(str(folder / graph_file), [graph])
    for part in ("train", "valid", "test"):
        past, future = rng.uniform(0, 70, (2, 128, 12, sensors, 2)).astype(np.float16).astype(np.float32)
        np.savez_compressed(folder / f"{name}_{part}.npz", x=past, y=future)


def recommendations() -> None:
    """Write Gowalla for NGCF: a line per user, with the numbers of the user's items."""
    rng = random("gowalla")
    users, items, train, test = 200, 400, 12, 4
    folder = EXAMPLES / "NGCF" / "Data" / "gowalla"
    folder.mkdir(exist_ok=True)
    chosen = [rng.permutation(items)[: train + test].tolist() for _ in range(users)]
    for part, of_part in (("train", slice(0, train)), ("test", slice(train, None))):
        lines = (" ".join(map(str, [user, *own[of_part]])) + "\n" for user, own in enumerate(chosen))
        (folder / f"{part}.txt").write_text("".join(lines), encoding="utf-8")


def relations() -> None:
    """Write WN18RR for CompGCN: a word, a relation and a word per line."""
    rng = random("wn18rr")
    names = ["_hypernym", "_derivationally_related_form", "_member_meronym", "_has_part", "_also_see"]
    words_count, counts = 300, {"train": 1500, "valid": 200, "test": 200}
    folder = EXAMPLES / "compGCN" / "wn18rr"
    folder.mkdir(exist_ok=True)
    for part, count in counts.items():
        lines = (
            f"{subject:08d}\t{names[relation]}\t{thing:08d}\n"
            for subject, relation, thing in zip(
                rng.integers(0, words_count, count),
                rng.integers(0, len(names), count),
                rng.integers(0, words_count, count),
            )
        )
        (folder / f"{part}.txt").write_text("".join(lines), encoding="utf-8")


def links_between_products() -> None:
    """Write Amazon for GATNE: edges of two types; those to validate and test with are marked as true or false."""
    rng = random("GATNE amazon")
    nodes, held_out = 200, 40
    folder = EXAMPLES / "GATNE-T" / "data" / "amazon"
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for kind in (1, 2):
        pairs = list(zip(*edges(rng, nodes)))
        lines["train"] += [f"{kind} {source} {target}\n" for source, target in pairs]
        for part in ("valid", "test"):
            for index in range(held_out):
                source, target = pairs[index] if index % 2 else rng.integers(0, nodes, 2)
                lines[part].append(f"{kind} {source} {target} {index % 2}\n")
    for part, content in lines.items():
        (folder / f"{part}.txt").write_text("".join(content), encoding="utf-8")


def digits() -> None:
    """Write MNIST's four unpacked files, from the 1,797 digits of 8 x 8 pixels that scikit-learn ships."""
    folder = EXAMPLES / "data" / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    shipped = load_digits()
    enlarged = np.kron(shipped.images * (255 / 16), np.ones((3, 3)))
    images = np.pad(enlarged.astype(np.uint8), ((0, 0), (2, 2), (2, 2)))
    labels = shipped.target.astype(np.uint8)
    for name, part in (("train", slice(0, 1536)), ("t10k", slice(1536, None))):
        count = len(labels[part])
        header = struct.pack(">IIII", 0x803, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + images[part].tobytes())
        header = struct.pack(">II", 0x801, count)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + labels[part].tobytes())


if __name__ == "__main__":
    for name, (features, classes) in CITATIONS.items():
        citation(name, features, classes)
    for name, (file, archive, features, relation_names) in FRAUD.items():
        fraud(name, file, archive, features, relation_names)
    for name, (features, classes) in CO_PURCHASES.items():
        co_purchase(name, features, classes)
    wiki_cs()
    proteins()
    for name, (features, classes, split, further) in OGB.items():
        ogb(name, features, classes, split, further)
    for name, (graph_file, sensors) in TRAFFIC.items():
        traffic(name, graph_file, sensors)
    recommendations()
    relations()
    links_between_products()
    digits()
