"""Articles on disk, in one SQLite file of one folder: what is acknowledged survives the end of the program.

Must not know who asks. `append` returns when the data was synced. A folder that was deleted is made again, with
nothing in it; a file that was deleted behind an append makes that append fail.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from lab.protocols.editor.rpc import Article

FILE = "articles.sqlite"
BUSY_S = 5.0
_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE IF NOT EXISTS articles (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    number INTEGER NOT NULL,
    topic BLOB NOT NULL,
    text BLOB NOT NULL,
    UNIQUE (session, number)
);
CREATE INDEX IF NOT EXISTS by_topic ON articles (topic, position);
"""
_INSERT = "INSERT OR IGNORE INTO articles (session, number, topic, text) VALUES (?, ?, ?, ?)"
_LAST = "SELECT text FROM articles WHERE topic = ? ORDER BY position DESC LIMIT 1"


class Disk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # which file it has open

    def prepare(self) -> int:
        try:
            self._opened()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        return secrets.randbits(63)

    def append(self, articles: Sequence[Article]) -> None:
        rows = [(one.session, one.number, one.topic, one.text) for one in articles]
        try:
            database = self._opened()
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(_INSERT, rows)
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        if self._identity() != self._file:
            raise OSError(f"{self._path} was deleted")

    def last(self, topic: bytes) -> bytes | None:
        try:
            row = self._opened().execute(_LAST, (topic,)).fetchone()
        except sqlite3.Error as error:
            raise OSError(str(error)) from error
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        if self._database is not None and self._identity() == self._file:
            return self._database
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, timeout=BUSY_S, isolation_level=None)
        try:
            database.executescript(_TABLES)
            for folder in (self._folder, self._folder.parent):
                _sync(folder)
        except BaseException:
            database.close()
            raise
        self._database, self._file = database, self._identity()
        return database

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _sync(folder: Path) -> None:
    """A name in a folder is on disk only when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
