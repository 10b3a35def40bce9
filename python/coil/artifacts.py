"""Graphs of Coil's cache among what `torch.compiler.save_cache_artifacts` gives: those that no result of AOTAutograd's
carries. Imports nothing of torch but the registry, so that `import coil` may register the type.
"""

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from .entries import read_entry, write_entry
from .options import default_cache

KIND = "coil_graph"
_LENGTH = 8  # bytes in front, which say how long the program is


class GraphArtifact(CacheArtifact):
    """`key` names the entry, which another build or CPU never asks for."""

    @staticmethod
    def type():
        return KIND

    def populate_cache(self):
        """What is torn is found out when the entry is read."""
        end = _LENGTH + int.from_bytes(self.content[:_LENGTH], "little")
        try:
            write_entry(default_cache(), self.key, [self.content[_LENGTH:end], self.content[end:]])
        except OSError:
            pass  # it costs the compile that wants it its time


def register():
    if KIND not in CacheArtifactFactory._artifact_types:
        CacheArtifactFactory.register(GraphArtifact)


def record(folder, entry):
    """Puts an entry among what is to be saved; nothing where it cannot be read."""
    try:
        program, report = read_entry(folder, entry)
    except OSError:
        return
    CacheArtifactManager.record_artifact(KIND, entry, len(program).to_bytes(_LENGTH, "little") + program + report)
