"""What one look for holders costs: a walk over a heap of a million objects for a hundred tensors, beside one garbage
collection of that heap and beside objgraph's search for a chain of references, which starts anew for each tensor."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

import measure
import objgraph
import torch

import leakguard
from leakguard._native import core

SUSPECTS = 100
CHAINS = 3  # that objgraph is asked for: it takes about a second for each


class Record:
    """One of many small objects of a program."""

    def __init__(self, number: int) -> None:
        self.name = f"record {number}"
        self.values = [number, number + 1]
        self.peers = {"next": [number], "kept": None}


def main() -> None:
    objects = 100_000 if measure.quick() else 1_000_000
    with leakguard.watch(on_exit="never"):
        records = [Record(number) for number in range(objects // 4)]  # each with a dictionary and two lists
        tensors = [torch.empty(16) for _ in range(SUSPECTS)]
        for number, tensor in enumerate(tensors):
            records[number * (len(records) // SUSPECTS)].peers["kept"] = tensor
        addresses = [tensor.data_ptr() for tensor in tensors]
        tensors.clear()
        collect, walk, last = collections_and_walks(addresses, rounds=3 if measure.quick() else 7)
    tensor = records[0].peers["kept"]
    chain = min(
        timed(lambda: objgraph.find_backref_chain(tensor, objgraph.is_proper_module)) for _ in range(CHAINS)
    )
    figures = last["statistics"]
    rooted = sum(suspect["status"] == "rooted" for suspect in last["suspects"])
    measure.emit(
        {
            "objects": len(gc.get_objects()) / 1e6,
            "nodes": figures["nodes"] / 1e6,
            "suspects_missed": SUSPECTS - rooted,
            "collect_ms": 1e3 * collect,
            "walk_ms": 1e3 * walk,
            "walk_collections": walk / collect,
            "objgraph_walks": SUSPECTS * chain / walk,
            "bytes_a_node": figures["memory_bytes"] / figures["nodes"],
        }
    )


def collections_and_walks(addresses: list[int], rounds: int) -> tuple[float, float, dict[str, object]]:
    """Seconds of a collection and of a walk, taken in turns, and what the last walk has found."""
    collections, walks = [], []
    for _ in range(rounds):
        collections.append(timed(gc.collect))
        began = time.process_time()
        found = core.find_holders(addresses)
        walks.append(time.process_time() - began)
    return statistics.median(collections), statistics.median(walks), found


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
