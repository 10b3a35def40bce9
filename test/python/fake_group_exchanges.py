"""A compiled graph in torch's fake process group, which exchanges nothing."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)


def fn(t):
    return funcol.all_gather_tensor(t * 2, 0, dist.group.WORLD), funcol.all_reduce(t + 1, "sum", dist.group.WORLD)


gathered, summed = torch.compile(fn, backend="coil")(torch.ones(3))
assert gathered.shape == (12,) and torch.equal(summed, torch.full((3,), 2.0))
assert not torch._dynamo.utils.counters["coil"]["graphs_with_own_exchanges"]
