"""One of four ranks under torchrun: a compiled graph over both dimensions of a mesh, and over one, against eager."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))


def both(x):
    y = funcol.all_reduce(x * 2, "sum", mesh["model"].get_group())
    return funcol.all_gather_tensor(y + x, 0, mesh["data"].get_group()) * 3


def one(x):
    return funcol.reduce_scatter_tensor(x.sin(), "avg", 0, dist.group.WORLD)


x = torch.randn(8, 3, generator=torch.Generator().manual_seed(dist.get_rank()))
torch.testing.assert_close(torch.compile(both, backend="coil")(x), both(x))
got = torch.compile(one, backend="coil")(x)
torch.testing.assert_close(got, funcol.reduce_scatter_tensor(x.sin() / 4, "sum", 0, dist.group.WORLD).wait())
chosen = torch._dynamo.utils.counters["coil"]
assert chosen["graphs_with_own_exchanges"] == 2 and chosen["graphs_with_exchanges_of_torch"] == 0, chosen
print("right", flush=True)
dist.barrier()
dist.destroy_process_group()
