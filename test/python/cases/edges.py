"""Arguments at the edge of what eager takes, where its own kernels decide what comes out."""

import math

import torch
import torch.nn.functional as F

from cases.data import Family

edges = Family("edges")
aten = torch.ops.aten
bytes_ = torch.tensor([[3, 250, 7], [200, 100, 9]], dtype=torch.uint8)

edges.add("diff_no_times", lambda x, y: torch.diff(x, 0, prepend=y, append=y), edges.normal(2, 3), edges.normal(2, 3))
edges.add("any_of_no_dims", lambda x: (aten.any.dims(x, []), aten.all.dims(x, [], True)), torch.tensor([[0.0, 2.0]]))
edges.add("any_of_all_dims", lambda x: (aten.any.dims(x, None), aten.all.dims(x, None)), torch.tensor([[0.0, 2.0]]))
edges.add(
    "sum_to_no_dims", lambda x, n: (x.sum_to_size([]), n.sum_to_size([])), edges.normal(2), torch.tensor(3).short()
)
edges.add("arange_of_bools", lambda x: (torch.arange(True) + x, torch.arange(False, 3, True)), edges.normal(1))
edges.add("trapezoid_wraps", lambda y, x: (torch.trapezoid(y, x), torch.cumulative_trapezoid(y, x)), bytes_, bytes_[0])
edges.add("trapezoid_infinite", lambda y: torch.trapezoid(y, dx=math.inf, dim=0), edges.normal(3, 4).abs())
edges.add("trapezoid_of_one", lambda y: torch.trapezoid(y, dx=math.inf), edges.normal(3, 1))
edges.add(
    "hermite_of_no_degree",
    lambda x: [
        f(x, n)
        for f in (torch.special.hermite_polynomial_h, torch.special.hermite_polynomial_he)
        for n in (math.inf, 1e30, math.nan)
    ],
    edges.normal(5),
)
edges.add(
    "zeta_infinite",
    lambda x: [torch.special.zeta(x, q) for q in (math.inf, 1e30, 2.0, -3.0, -2.5)],
    torch.tensor([0.5, 1.0, 1.5, 30.0, 2.0**31, 1e30, math.inf, math.nan]),
)
edges.add("trigamma_poles", lambda x: torch.polygamma(1, x), torch.tensor([-3.0, -2.0, -1.0, 0.0, 1.0, -0.5, math.inf]))
OTHER = "torch's decomposition computes otherwise than eager's kernel"
edges.add(
    "hardsigmoid_backward_f64",
    aten.hardsigmoid_backward,
    edges.normal(3, 4).double(),
    edges.normal(3, 4).double(),
    exported_only=OTHER,
)
edges.add(
    "logit_backward_unbounded",
    lambda g, x: aten.logit_backward(g, x, -1.0),
    edges.normal(6),
    edges.normal(6),
    exported_only=OTHER,
)
edges.add("rrelu_backward_in_training", lambda g, x, n: aten.rrelu_with_noise_backward(g, x, n, 2.0, 1.0, True, False),
          *(edges.normal(3, 4) for _ in range(3)))  # fmt: skip
edges.add(
    "norm_of_one_large",
    lambda x: (x.norm(dim=1), x.norm(3, dim=1), x.norm(0, dim=1), x[0].norm()),
    torch.tensor([[1e30], [-2.0]]),
)
edges.add("weight_norm_from_behind", lambda v, g: torch._weight_norm(v, g, -2), edges.normal(2, 3, 4),
          edges.normal(1, 3, 1))  # fmt: skip
edges.add("unsigned_of_negative", lambda x: x.to(torch.uint64).to(torch.int64), torch.tensor([-1.0, -1.5, -300.0, 7.0]))
edges.add("half_of_large", lambda i, h: (i * h, torch.pow(i, h), i + h), torch.tensor([100000, -70000, 3]),
          torch.tensor([0.5, 1.0, 2.0]).half())  # fmt: skip
edges.add(
    "unfold_backward_shared",
    lambda g: aten.unfold_backward(g, [2, 10], 1, 4, 3),
    edges.normal(1, 3, 4),
)
for dims, sizes in (1, (7,)), (2, (4, 7)), (3, (2, 3, 4)):
    for factor in (1.2, 2.1):
        edges.add(
            f"nearest_{dims}d_{factor}",
            lambda x, f=factor: (
                F.interpolate(x, scale_factor=f),
                F.interpolate(x, scale_factor=f, mode="nearest-exact"),
            ),
            edges.normal(1, 2, *sizes),
        )
edges.add(
    "nearest_2d_backward",
    lambda g: (aten.upsample_nearest2d_backward(g, [4, 8], [1, 2, 4, 4], 1.2, 2.1)),
    edges.normal(1, 2, 4, 8),
)
edges.add(
    "nearest_1d_backward", lambda g: aten.upsample_nearest1d_backward(g, [4], [1, 2, 4], 1.2), edges.normal(1, 2, 4)
)
