"""Compiled graphs as Dynamo and AOTAutograd hold them."""


def ready(graph, record, recordings):
    """The graph, for Dynamo to call: with lists of inputs, and, if `record`, keeping as many recordings."""
    graph.record, graph.recordings = record, recordings
    graph._boxed_call = True
    graph.__name__ = "coil"  # Dynamo asks each call for it
    return graph


def inner(made):
    """The graph in what a compiler gave, which may have it wrapped for AOTAutograd's cache or with held weights."""
    return getattr(made, "graph", made)
