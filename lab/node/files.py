"""Files that a core wants written, in one folder and nowhere else. Must not know what is in them."""

from __future__ import annotations

from pathlib import Path

from lab.protocols.core import FileWritten


class Files:
    """Without a folder nothing is kept. A file that cannot be written is counted; it must not end the program."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.failed = 0

    def write(self, event: FileWritten) -> None:
        if self._folder is None:
            return
        if not event.name or event.name != Path(event.name).name or event.name.startswith("."):
            self.failed += 1
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / event.name
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.seek(0 if event.offset is None else event.offset, 2 if event.offset is None else 0)
                file.write(event.data)
        except OSError:
            self.failed += 1
