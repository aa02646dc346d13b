"""From the dictionaries of `torch.cuda.memory._snapshot`, older shapes too, to a TorchSnapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from leakguard.memory_snapshot import Counter, DeviceMemory, LiveGroup, Snapshot
from leakguard.report import Place
from leakguard.report_file import ReportError
from leakguard.torch_frames import place_of_frames
from leakguard.torch_pickle import HOW_TO_MAKE
from leakguard.torch_snapshot import Growing, History, PrivatePool, Reserved, TorchSnapshot
from leakguard.torch_trace import Trace, read_trace, whole

__all__ = ["read_snapshot"]

PENDING = ("active_pending_free", "active_awaiting_free")
SHOWN_PIECES = 5
LEAST_BIRTHS, LEAST_TENTHS = 8, 8
UNSET = {"pinned_num_register_threads": 1}

GroupKey = tuple[str, Place, bool, bool]


@dataclass(slots=True)
class _Device:
    """The sums of one device while its segments are read."""

    sums: dict[tuple[str, str], int] = field(default_factory=dict)
    segments: int = 0
    expandable: int = 0
    free: list[int] = field(default_factory=list)
    unborn: list[int] = field(default_factory=list)
    placeless: list[int] = field(default_factory=list)

    def add(self, name: str, pool: str, size: int) -> None:
        for one in ("all", pool) if pool else ("all",):
            self.sums[name, one] = self.sums.get((name, one), 0) + size

    def memory(self, device: str) -> DeviceMemory:
        names = ("allocated", "active", "requested", "reserved", "inactive split")
        pools = [pool for pool in ("large", "small") if ("reserved", pool) in self.sums]
        return DeviceMemory(
            device=device,
            counters=tuple(
                Counter(name=name, pool=pool, current=self.sums.get((name, pool), 0))
                for name in names
                for pool in ("all", *pools)
            ),
        )


def read_snapshot(data: Any, origin: str) -> TorchSnapshot:
    """The snapshot that `data` describes. Raises ReportError, naming `origin`, when it describes none."""
    if isinstance(data, (list, tuple)):  # the first shape: the segments alone
        data = {"segments": data}
    if not isinstance(data, Mapping) or not isinstance(data.get("segments"), (list, tuple)):
        raise ReportError(f"{origin} is a pickle and no memory snapshot: it lists no segments. {HOW_TO_MAKE}")
    try:
        return _Reader().read(data)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise ReportError(
            f"{origin} is no memory snapshot that this leakguard knows ({problem}). {HOW_TO_MAKE}"
        ) from error


class _Reader:
    def __init__(self) -> None:
        self._devices: dict[str, _Device] = {}
        self._pools: dict[tuple[str, str], list[int]] = {}
        self._groups: dict[GroupKey, list[tuple[int, ...]]] = {}
        self._requested: dict[GroupKey, int] = {}
        self._events: dict[GroupKey, list[int]] = {}
        self._places: dict[tuple[int, int], Place] = {}
        self._traces: dict[str, Trace] = {}

    def read(self, data: Mapping[str, Any]) -> TorchSnapshot:
        for index, events in enumerate(data.get("device_traces") or ()):
            if events:
                self._traces[f"cuda:{index}"] = read_trace(events)
        for segment in data["segments"]:
            self._read_segment(segment, f"cuda:{whole(segment.get('device', 0))}")
        for segment in data.get("host_segments") or ():
            self._read_segment(segment, "pinned")
        names = sorted(self._devices.keys() | self._traces.keys())
        ordered = sorted(self._groups, key=lambda key: -sum(size for *_, size in self._groups[key]))
        groups = tuple(
            LiveGroup(
                device=key[0],
                place=key[1],
                pending=key[2],
                private_pool=key[3],
                requested_bytes=self._requested[key],
                keys=tuple(sorted(self._groups[key])),
            )
            for key in ordered
        )
        devices = {name: self._devices.get(name) or _Device() for name in names}
        return TorchSnapshot(
            memory=Snapshot(
                step=0, devices=tuple(one.memory(name) for name, one in devices.items()), groups=groups
            ),
            reserved=tuple(_reserved(name, one) for name, one in devices.items()),
            pools=tuple(
                PrivatePool(
                    device=device, pool=pool, segments=count, reserved_bytes=size, allocated_bytes=live
                )
                for (device, pool), (count, size, live) in sorted(self._pools.items())
            ),
            histories=tuple(self._history(name, one) for name, one in devices.items()),
            growing=tuple(self._growing(ordered)),
            settings=_settings(data.get("allocator_settings") or {}),
        )

    def _read_segment(self, segment: Mapping[str, Any], device: str) -> None:
        entry = self._devices.setdefault(device, _Device())
        kind, size = str(segment.get("segment_type") or ""), whole(segment["total_size"])
        pool_id = tuple(map(whole, segment.get("segment_pool_id") or (0, 0)))
        private = any(pool_id)
        entry.segments += 1
        entry.expandable += bool(segment.get("is_expandable"))
        entry.add("reserved", kind, size)
        address, live = whole(segment.get("address") or 0), 0
        blocks = segment["blocks"]
        for block in blocks:
            length, state = whole(block["size"]), block["state"]
            at = whole(block.get("address") or address)
            address = at + length
            if state == "inactive":
                entry.free.append(length)
                if len(blocks) > 1:
                    entry.add("inactive split", kind, length)
                continue
            pending = state in PENDING
            live += 0 if pending else length
            asked = _requested(block, length)
            entry.add("allocated", kind, 0 if pending else length)
            entry.add("active", kind, length)
            entry.add("requested", kind, asked)
            key = (device, self._place(block), pending, private)
            event, birth = self._birth(device, at)
            self._groups.setdefault(key, []).append((at, birth, length))
            self._requested[key] = self._requested.get(key, 0) + asked
            if event is None:
                entry.unborn.append(length)
            elif not pending:
                self._events.setdefault(key, []).append(event)
            if key[1].file is None:
                entry.placeless.append(length)
        if private:
            pool = self._pools.setdefault((device, ".".join(map(str, pool_id))), [0, 0, 0])
            for number, more in enumerate((1, size, live)):
                pool[number] += more

    def _birth(self, device: str, address: int) -> tuple[int | None, int]:
        trace = self._traces.get(device)
        return (None, 0) if trace is None else trace.open.get(address, (None, 0))

    def _place(self, block: Mapping[str, Any]) -> Place:
        frames, forward = block.get("frames"), block.get("forward_frames")
        if frames is None and block.get("history"):
            frames = block["history"][0].get("frames")
        key = (
            id(frames),
            id(forward),
        )  # equal stacks are one object in the pickle, which outlives the reading
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = place_of_frames(frames or (), forward or ())
        return place

    def _history(self, name: str, device: _Device) -> History:
        trace = self._traces.get(name) or Trace()
        return History(
            device=name,
            events=trace.events,
            births=trace.births,
            frees=trace.frees,
            out_of_memory=trace.out_of_memory,
            seconds=trace.seconds,
            frees_unexplained=trace.frees_unexplained,
            unborn_blocks=len(device.unborn),
            unborn_bytes=sum(device.unborn),
            placeless_blocks=len(device.placeless),
            placeless_bytes=sum(device.placeless),
        )

    def _growing(self, ordered: list[GroupKey]) -> Iterator[Growing]:
        for number, key in enumerate(ordered):
            born = self._events.get(key, ())
            if len(born) < LEAST_BIRTHS or key[3]:
                continue
            events = self._traces[key[0]].events
            tenths = {event * 10 // events for event in born}
            if len(tenths) >= LEAST_TENTHS and 9 in tenths:
                size = sum(size for *_, size in self._groups[key])
                yield Growing(group=number, blocks=len(born), bytes=size, tenths=len(tenths))


def _reserved(name: str, device: _Device) -> Reserved:
    free = sum(device.free)
    pieces = sorted(device.free, reverse=True)[:SHOWN_PIECES]
    return Reserved(
        device=name,
        segments=device.segments,
        expandable_segments=device.expandable,
        reserved_bytes=device.sums.get(("reserved", "all"), 0),
        free_bytes=free,
        largest_free=tuple(pieces),
        fragmentation=1 - pieces[0] / free if free else 0.0,
    )


def _requested(block: Mapping[str, Any], size: int) -> int:
    """`requested_size`, in old snapshots the `real_size` of the block's last use; else what was set aside."""
    if "requested_size" in block:
        return whole(block["requested_size"])
    history = block.get("history")
    return whole(history[0].get("real_size", size)) if history else size


def _settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that say something: torch writes every one it knows, an unset one as nothing, 0 or -1."""
    return tuple(f"{name}={value}" for name, value in settings.items() if _is_set(name, value))


def _is_set(name: str, value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_set(name, one) for one in value.values())
    return bool(value) and value not in (-1, UNSET.get(name))
