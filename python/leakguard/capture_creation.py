"""A new capture file: its tables, and the kind of journal that works where it lies."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakguard.capture_file import APPLICATION, SCHEMA, TABLES, check_writable

__all__ = ["created", "put_facts"]

NETWORKS = frozenset(
    [
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs"),
        *("lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs"),
    ]
)
"""Kinds of mounts on which a write-ahead log is not safe: its readers share memory with the writer."""

PARTS = ("", "-wal", "-shm", "-journal")


def created(path: Path, facts: Mapping[str, Any]) -> sqlite3.Connection:
    """A new file; with a write-ahead log where that works, else with a rollback journal."""
    check_writable(path)
    for mode in ("WAL", "PERSIST"):
        if mode == "WAL" and _is_on_network(path):
            continue
        for part in PARTS:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(f"{path}{part}")
        connection = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            if _begun(connection, mode, facts):
                return connection
        except sqlite3.Error:
            connection.close()
            if mode != "WAL":
                raise
        else:
            connection.close()
    raise sqlite3.OperationalError("neither a write-ahead log nor a rollback journal works there")


def _begun(connection: sqlite3.Connection, mode: str, facts: Mapping[str, Any]) -> bool:
    """Whether the mode works; then the tables are there."""
    connection.execute("PRAGMA page_size = 1024")
    (got,) = connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
    if got.upper() != mode:
        return False
    for setting in ("synchronous = OFF", "wal_autocheckpoint = 256", "cache_size = -64"):
        connection.execute(f"PRAGMA {setting}").fetchall()
    marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA};"
    connection.executescript(f"BEGIN; {marks} {TABLES} COMMIT;")
    put_facts(connection, facts)
    return True


def put_facts(connection: sqlite3.Connection, facts: Mapping[str, Any]) -> None:
    """Puts facts of the run in the place of those of the same names."""
    connection.executemany("INSERT OR REPLACE INTO run VALUES (?, ?)", list(facts.items()))


def _is_on_network(path: Path) -> bool:
    """Whether the innermost mount that has the folder is of a network."""
    folder = os.path.realpath(path.parent)
    best, kind = "", ""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                _, point, found, *_ = line.split(" ")
                point = point.replace("\\040", " ")
                if len(point) >= len(best) and (folder + "/").startswith(point.rstrip("/") + "/"):
                    best, kind = point, found
    except (OSError, ValueError):
        return False
    return kind in NETWORKS
