"""A rank of two that calls a compiled sum for ever: `endless_exchanges.py STORE sum|max RANK`."""

import datetime
import os
import sys
import traceback

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

store, kind, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
dist.init_process_group(
    "gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2, timeout=datetime.timedelta(seconds=30)
)
graph = torch.compile(lambda t: funcol.all_reduce(t * 2, kind, dist.group.WORLD) + t, backend="coil")
graph(torch.ones(100))
assert torch._dynamo.utils.counters["coil"]["graphs_with_own_exchanges"] == 1
print("running", flush=True)
try:
    while True:
        graph(torch.ones(100))
except Exception:
    traceback.print_exc()
    os._exit(1)
