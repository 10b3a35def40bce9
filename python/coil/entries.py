"""Entries of the cache of graphs as bytes: two files each, the program and what the compile said of it."""

import os
import tempfile

_SUFFIXES = (".coil", ".txt")


def read_entry(folder, entry):
    """The contents of an entry's files. Raises OSError where there is none."""
    return [(folder / "graphs" / (entry + suffix)).read_bytes() for suffix in _SUFFIXES]


def write_entry(folder, entry, files):
    """Raises OSError where nothing can be written."""
    (folder / "graphs").mkdir(parents=True, exist_ok=True)
    for suffix, content in zip(reversed(_SUFFIXES), reversed(files)):  # the program last: it makes the entry
        write_file(folder / "graphs" / (entry + suffix), content)


def write_file(path, content):
    """Written aside and renamed: nobody reads half a file."""
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
