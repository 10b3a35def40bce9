"""Calls that eager refuses are refused by the name of the operator; metadata where they are easily mistaken."""

import pytest
import torch

from schema_calls import Build, lowered, metadata_differences
from schema_draws import Draw
from schema_eager import Answer, answer

F = torch.ones(2, 3)
I = torch.ones(2, 3, dtype=torch.int64)
B = torch.ones(2, 3, dtype=torch.bool)
V = torch.ones(3)
U8 = torch.ones(2, 3, dtype=torch.uint8)
IMAGE = torch.ones(1, 2, 4, 4)
U16 = torch.ones(2, 3).to(torch.uint16)
F8 = torch.ones(2, 3).to(torch.float8_e4m3fn)
E = torch.ones(2, 0)

L = torch.zeros(1, dtype=torch.int64)
COMPLEX = torch.ones(3, 6, 7, dtype=torch.complex64)
HEADS = torch.ones(2, 4, 3, 8)

REFUSED = [
    ("_adaptive_avg_pool2d", [IMAGE, [4]]),
    ("_fft_c2r", [COMPLEX, [], 2, 10]),
    ("_log_softmax_backward_data", [F, F, 1, torch.float16]),
    ("_native_batch_norm_legit", [torch.ones(0, 3), V, V, V, V, True, 0.1, 1e-5]),
    ("_unsafe_index.Tensor", [F, [B]]),
    ("cdist", [F, V[:2].expand(2, 2)]),
    ("cdist", [F, F.double()]),
    ("clamp_max", [B, True]),
    ("conv2d", [IMAGE, IMAGE, None, [1, 1], [0, 0], [0, 1]]),
    ("conv2d", [IMAGE, IMAGE, torch.ones([])]),
    ("conv2d", [IMAGE, IMAGE, torch.ones(1).double()]),
    ("diff", [F, 0, -1, None, V]),
    ("div.Tensor_mode", [B, B], {"rounding_mode": "trunc"}),
    ("expand", [V[:1], [-5]]),
    ("gather", [E, 1, I]),
    ("gradient.scalarrayint", [torch.ones([])], {"spacing": [2.0]}),
    ("group_norm", [IMAGE, 2, V, None]),
    ("im2col", [IMAGE, [2, 0], [1, 1], [0, 0], [1, 1]]),
    ("index.Tensor", [E.T, [L]]),
    ("index_add", [torch.ones(0), 0, L, torch.ones(1)]),
    ("leaky_relu_backward", [F, F, -1, True]),
    ("linear", [F, F, torch.ones(3)]),
    ("linear", [I, V.long(), V.long()]),
    ("linear", [IMAGE[0], torch.ones(4), V[:1]]),
    ("constant_pad_nd", [V, [-4, 4]]),
    ("cumsum_", [V, 0], {"dtype": torch.int8}),
    ("float_power_.Scalar", [V, 2]),
    ("index_add", [torch.ones([]), 0, L, torch.ones(1)]),
    ("index_add", [F, 1, L, torch.ones(1, 1)]),
    ("linalg_householder_product", [F, V[:2]]),
    ("linalg_householder_product", [F.T, V]),
    ("poisson_nll_loss", [F, B, True, True, 1e-8, 1]),
    ("quantile", [F, F]),
    ("smooth_l1_loss_backward", [B, B, B, 1, 1.0]),
    ("logsumexp", [F, []]),
    ("max_pool2d", [IMAGE, [2, 2], [2, -2]]),
    ("max_pool2d_with_indices_backward", [IMAGE, IMAGE, [1, 1], [], [], [1, 1], False, IMAGE.long()]),
    ("multilabel_margin_loss", [torch.ones(0), L[:0]]),
    ("narrow", [V, 0, -4, 0]),
    ("native_group_norm", [F, None, None, 64, 4, 3, 2, 1e-5]),
    ("nll_loss", [F, L.expand(2).int()]),
    ("nll_loss_backward", [L[0], I, L.expand(2), None, 1, -100, L[0]]),
    ("pdist", [F, float("-inf")]),
    ("randint.low", [-2, 4, [4]], {"dtype": torch.uint64}),
    ("reflection_pad1d_backward", [torch.ones(1, 2, 4).long(), torch.ones(1, 2, 2).long(), [1, 1]]),
    ("repeat_interleave.Tensor", [L[0]]),
    ("roll", [V, [1, 1]]),
    ("std.dim", [F8, [-1]]),
    ("take", [E, L]),
    ("trapz.x", [torch.ones(5), torch.ones(2)]),
    ("upsample_nearest1d_backward", [torch.ones(2, 3, 2).long(), [2], [2, 3, 4]]),
    ("add.Scalar", [True, -1, -1.0]),
    ("addmm", [B, B, B.T]),
    ("adaptive_max_pool2d", [IMAGE.long(), [2, 2]]),
    ("addr", [torch.ones(3, 3, dtype=torch.int64), V.long(), V.long()], {"beta": 0.5}),
    ("arange", [-0.5]),
    ("arange", [3], {"dtype": torch.bool}),
    ("atan2.out", [I, I], {"out": torch.ones(2, 3, dtype=torch.int64)}),
    ("avg_pool2d", [IMAGE.int(), [2, 2]]),
    ("baddbmm", [torch.ones(1, 2, 2), torch.ones(1, 2, 2).double(), torch.ones(1, 2, 2).double()]),
    ("batch_norm", [F, None, None, None, None, False, 0.1, 1e-5, False]),
    ("batch_norm", [F, None, None, V, None, True, 0.1, 1e-5, False]),
    ("bincount", [V.long(), None, -1]),
    ("bitwise_or.Tensor", [U16, I]),
    ("cdist", [F.long(), F]),
    ("cosine_embedding_loss", [IMAGE, IMAGE, torch.ones(1)]),
    ("cross", [F, F.double()]),
    ("dropout", [I, 0.5, True]),
    ("empty.memory_format", [[2, 3]], {"memory_format": torch.preserve_format}),
    ("eq.Tensor", [F8, F]),
    ("eye", [-1]),
    ("fake_quantize_per_channel_affine", [F, V, V.int(), 0, -3, 3]),
    ("gradient.array", [F], {"dim": [0, -2]}),
    ("grid_sampler_2d", [IMAGE, torch.ones(1, 4, 4, 3), 0, 0, False]),
    ("hardtanh", [I.to(torch.uint8)]),
    ("histc", [F, 5, 0.5, float("nan")]),
    ("huber_loss_backward", [F, I, I, 1, 1.0]),
    ("index.Tensor", [F, [None]]),
    ("index_copy", [F, 0, torch.tensor([0]), F]),
    ("item", [F]),
    ("kthvalue", [F, 4, 1]),
    ("layer_norm", [F, [3], V.double()]),
    ("layer_norm", [F, [3], torch.ones(2)]),
    ("linalg_cross", [F.T, F.T], {"dim": 1}),
    ("linalg_svd", [F], {"driver": "gesvd"}),
    ("linalg_vander", [V], {"N": 1}),
    ("linalg_vector_norm", [F.double()], {"dtype": torch.float32}),
    ("log_sigmoid_backward", [F, F, F.double()]),
    ("logical_or", [I, F8]),
    ("masked_select", [F, torch.ones(5, 1, dtype=torch.bool)]),
    ("max_pool1d", [IMAGE[0].long(), [2]]),
    ("mse_loss_backward", [F, B, I, 2]),
    ("nll_loss_nd", [F, torch.zeros(4, dtype=torch.int64)]),
    ("pad", [IMAGE, [], "circular"]),
    ("pow.Tensor_Scalar", [I, -2]),
    ("prelu", [F, V.double()]),
    ("quantile.scalar", [E, 0.5]),
    ("random.from", [I.to(torch.uint8), -1, None]),
    ("remainder.Scalar", [I, 0]),
    ("floor_divide.Scalar", [I.to(torch.uint8), 256]),
    ("repeat_interleave.self_int", [F, -2, 0]),
    ("replication_pad2d", [torch.ones(1, 2, 0, 3), [1, 1, 1, 1]]),
    ("rrelu", [F, 0.5, float("inf")]),
    ("searchsorted.Tensor", [torch.ones(2, 2, 3), F]),
    ("sub.Scalar", [I, True]),
    ("take_along_dim", [F, B, 1]),
    ("triplet_margin_loss", [F, V, F]),
    ("unflatten.int", [V, 0, []]),
    ("uniform", [F, float("-inf"), 0.5]),
    ("unique_dim", [E, 0]),
    ("upsample_nearest1d.vec", [torch.ones(1, 2, 3), [4], [2.0]]),
    ("view.dtype", [torch.ones(2, 3).half(), torch.float32]),
    ("vsplit.array", [V, [1]]),
    ("instance_norm", [IMAGE, None, None, V[:1].expand(2), V[:2], True, 0.1, 1e-5, True]),
    ("add_.Tensor", [V[:1].expand(3), V]),
    ("cumsum_", [V[:1].expand(3), 0]),
    ("addmm_", [V.expand(3, 3), torch.ones(3, 2), F]),
    ("native_group_norm_backward", [IMAGE, IMAGE, F[:1, :1], F[:1, :1], None, 1, 2, 16, 1, []]),
    ("convolution_backward", [IMAGE, IMAGE, IMAGE, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True]]),
    ("hinge_embedding_loss", [I, I]),
    ("scaled_dot_product_attention", [HEADS[:1], HEADS[:1], HEADS[:1], torch.ones(2, 1, 3, 3)]),
    ("scaled_dot_product_attention", [HEADS[0], HEADS[0], HEADS[0], torch.ones(1, 4, 3, 3)]),
    ("block_diag", [[U16, U16.to(torch.uint32)]]),
    ("clamp", [U8, None, 300]),
    ("clamp_min", [I.int(), 2**31]),
    ("clamp_max", [F, 1e39]),
    ("hardtanh", [F.half(), 0, 1e6]),
    ("threshold", [U8, 0, 256]),
    ("masked_fill.Scalar", [U8, B, 300]),
    ("masked_fill.Scalar", [U8, B, -1.0]),
    ("masked_fill.Scalar", [F.half(), B, -1e9]),
    ("index_fill.int_Scalar", [I.to(torch.int8), 0, L, -129]),
    ("scatter.value", [U8, 0, I[:1], 256]),
    ("where.ScalarOther", [B, U8, 300]),
    ("where.ScalarSelf", [B, 300, U8]),
    ("add.Tensor", [U8, U8], {"alpha": 300}),
    ("addcmul", [U8, U8, U8], {"value": -256}),
    ("pow.Tensor_Scalar", [U8, 300]),
    ("fill.Scalar", [U8, 300]),
    ("full", [[2], 300], {"dtype": torch.uint8}),
]

# Refused inside of what they are made of.
INSIDE = [
    ("cross_entropy_loss", [V, torch.zeros(1, dtype=torch.int64)], {"label_smoothing": 1e-5}),
    ("dist", [I, I]),
    ("embedding_dense_backward", [F, torch.zeros(2, dtype=torch.int64), -3, 5, True]),
    ("gru_cell", [F, F, F, F, V, None]),
    ("renorm", [torch.ones(2, 0, 3), float("inf"), 2, 1.5]),
    ("rms_norm", [I, [3]]),
    ("special_polygamma", [-3, V]),
    ("tile", [F, [-1, 1]]),
]

TURNED = torch.ones(3, 4, 5).permute(2, 0, 1)
TAKEN = [
    ("_native_batch_norm_legit_functional", [F, V, None, V, V, False, 0.1, 1e-5]),
    ("alpha_dropout", [I, 0.5, False]),
    ("as_strided_scatter", [L[0], L, [1], [1], 0]),
    ("block_diag", [[]]),
    ("diagonal", [COMPLEX]),
    ("dropout", [L[:0], 0.5, True]),
    ("feature_dropout", [I, 1.0, True]),
    ("linalg_matmul", [V.int(), V.int()]),
    ("linalg_svdvals", [E], {"driver": "gesvd"}),
    ("log_sigmoid_backward", [F, F, F[:1]]),
    ("logsumexp", [E, [1]]),
    ("mH", [torch.ones([])]),
    ("mode", [F]),
    ("native_channel_shuffle", [IMAGE, 1]),
    ("native_dropout", [I, -1.0, False]),
    ("native_dropout_backward", [I, B, 2.0]),
    ("numpy_T", [COMPLEX]),
    ("pixel_unshuffle", [torch.ones(1, 0, 0, 1), 1]),
    ("rrelu_with_noise_backward", [F, F, F.double(), 0, 3, True, True]),
    ("select.int", [COMPLEX, 1, 4]),
    ("split.sizes", [COMPLEX, [3, 4], 2]),
    ("view_as_complex", [torch.ones(2, 6, 2)[:, ::3]]),
    ("view_as_real", [COMPLEX.transpose(0, 2)[1:]]),
    ("arange", [2.5], {"dtype": torch.int64}),
    ("bernoulli.p", [TURNED, 0.5]),
    ("cartesian_prod", [[V]]),
    ("channel_shuffle", [IMAGE, 1]),
    ("conj_physical", [TURNED]),
    ("float_power.Scalar", [0, TURNED]),
    ("frexp.Tensor", [F.T]),
    ("leaky_relu_backward", [torch.ones(5, 3, 4), TURNED, 0.1, False]),
    ("linalg_vander", [I.T], {"N": 2}),
    ("native_dropout", [E, 0.5, None]),
    ("pixel_unshuffle", [torch.ones(5, 3, 2, 2), 2]),
    ("roll", [torch.ones([]), [1]]),
    ("rrelu", [TURNED]),
    ("rrelu_with_noise_backward", [torch.ones(5, 3, 4), V[0], TURNED, 0.1, 0.5, True, False]),
    ("svd", [F], {"compute_uv": False}),
    ("threshold_backward", [torch.ones(5, 3, 4), TURNED, 0.5]),
    ("unique_consecutive", [V, False, False, 0]),
    ("unique_consecutive", [V, False, False, -1]),
    ("unique_dim", [TURNED, 1]),
    ("scaled_dot_product_attention", [HEADS[0], HEADS, HEADS]),
    ("scaled_dot_product_attention", [HEADS[0, 0], HEADS, HEADS]),
    ("scaled_dot_product_attention", [HEADS[:1], HEADS, HEADS]),
    ("scaled_dot_product_attention", [HEADS, HEADS[:, :1], HEADS[0]]),
    ("scaled_dot_product_attention", [HEADS[0], HEADS[:, :2], HEADS[:, :2]], {"enable_gqa": True}),
    ("poisson_nll_loss", [I, I, True, False, 1e-8, 1]),
    ("hinge_embedding_loss", [I.int(), I, 1.0, 0]),
    ("hinge_embedding_loss", [I.int(), F, 1.0, 2]),
    ("linear", [IMAGE[0].transpose(0, 1), torch.ones(4), V[:1]]),
    ("linear", [IMAGE[0], torch.ones(4), torch.ones([])]),
    ("normal.Tensor_float", [TURNED, 1.0]),
    ("pad_sequence", [[I, F]]),
    ("segment_reduce", [F, "mean"], {"lengths": torch.tensor([[1, 2], [3, 0]]), "axis": 1, "initial": 2.0}),
    ("median", [E]),
    ("nanmedian", [E.long()]),
    ("clamp", [U8, -1]),
    ("clamp", [U8, -1.5, 2.5]),
    ("clamp_max", [F, float("inf")]),
    ("masked_fill.Scalar", [U8, B, -1]),
    ("where.ScalarOther", [B, F.half(), 1e6]),
    ("where.ScalarOther", [B, U8, 2.5]),
    ("add.Scalar", [U8, 300]),
]


def drawn(target, args, kwargs=None):
    name = target if "." in target else f"{target}.default"
    return Draw(f"aten.{name}", list(args), kwargs or {})


def label(case):
    return case[0]


@pytest.mark.parametrize("case", REFUSED, ids=label)
def test_what_eager_refuses_is_refused_by_name(case):
    draw = drawn(*case)
    eager = answer(draw)
    assert eager.refused
    made, error = lowered(draw, eager)
    assert made is None
    assert error.startswith(f"Error: {draw.target}"), error


@pytest.mark.parametrize("case", TAKEN, ids=label)
def test_metadata_is_eagers(case):
    draw = drawn(*case)
    eager = answer(draw)
    made, error = lowered(draw, eager)
    assert not eager.refused and not error
    assert not metadata_differences(eager.results, made)


def test_lists_that_no_memory_holds():
    made, error = lowered(drawn("tensor_split.sections", [V, 2**31]), Answer(shape=[True]))
    assert made is None and error.startswith("Error: aten.tensor_split.sections: gives no list of 2147483648 tensors")


def test_an_exponent_without_an_opposite():
    """Eager never ends."""
    made, error = lowered(drawn("matrix_power", [torch.eye(3), -(2**63)]), Answer(shape=True))
    assert made is None and error.startswith("Error: aten.matrix_power.default: takes no exponent")


def test_numbers_beyond_64_bits():
    draw = drawn("eye", [2**63])
    with pytest.raises(Exception, match=r"^aten.eye.default: 9223372036854775808 leaves the range of 64-bit integers"):
        Build(draw, True)


def test_the_operator_of_the_graph_is_named_and_not_one_that_it_is_made_of():
    """A decomposition's own calls are no concern of whoever wrote the graph, and nothing that torch could be left."""
    for case in INSIDE:
        draw = drawn(*case)
        made, error = lowered(draw, answer(draw))
        assert made is None and error.startswith(f"Error: {draw.target}"), (case[0], error)
