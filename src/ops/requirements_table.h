// What eager asks of calls, as text: `operators: argument verb words; ...`. Operators are named without their overload
// or with it; the one in place asks what the other does, and what stands under its own name (`cumsum_`). The verbs are
// those of requirements.cpp. A line that begins with blanks goes on with the one before.
#pragma once
#include <string_view>

namespace coil::ops {

inline constexpr std::string_view kRequirements = R"(
__and__ __or__ __xor__ bitwise_and bitwise_or bitwise_xor bitwise_not: operands is integral
__lshift__ __rshift__ bitwise_left_shift bitwise_right_shift gcd lcm: operands is integer
abs absolute relu floor_divide: operands is numeric
sub subtract rsub l1_loss triplet_margin_loss margin_ranking_loss gradient pairwise_distance corrcoef cov:
    tensors is numeric
div divide: rounding_mode one trunc floor
hardtanh: self is numeric
flipud: self rank 1+
fliplr: self rank 2+
frac: self is floating
trunc fix relu6 ceil floor round: self is numeric
round.decimals: self is floating
trapezoid trapz cumulative_trapezoid: y is numeric
isin: tensors is numeric
tril_indices triu_indices: result is i32|i64
neg negative positive: self is numeric
remainder fmod: operands is numeric
threshold_backward: operands is numeric
nextafter: operands is floating
isclose allclose: rtol >= 0; atol >= 0
cosine_similarity: eps >= 0; operands is fractional
vander: x rank 1
trace: self rank 2; self is numeric
topk: self is numeric
bilinear: input1 rank 1+; input2 rank 1+; weight rank 3
prelu: weight rank 0 1
heaviside: values as self
lerp: end as self; weight as self
igamma igammac special_gammainc special_gammaincc: operands is floating
_is_all_true _is_any_true: self is b8
_linalg_check_errors: info is i32
nanmean: self is fractional
clamp clip: min|max given
fill.Tensor: value rank 0
masked_fill.Tensor: value rank 0; mask is b8
masked_fill masked_select masked_scatter: mask is b8

gelu silu mish elu celu selu softplus hardswish hardsigmoid hardshrink softshrink log_sigmoid_forward:
    self is fractional
logit_backward leaky_relu_backward mish_backward gelu_backward silu_backward elu_backward softplus_backward:
    operands is fractional
hardswish_backward hardsigmoid_backward hardshrink_backward softshrink_backward hardtanh_backward:
    operands is fractional
sigmoid_backward tanh_backward _prelu_kernel_backward log_sigmoid_backward: operands is fractional
gelu gelu_backward: approximate one none tanh
celu: alpha not 0
rrelu_with_noise_backward: operands is floating
rrelu rrelu_with_noise rrelu_with_noise_functional: self is floating; lower upto upper
rrelu_with_noise rrelu_with_noise_functional: noise sizes self
glu_backward: grad_output like glu.default
dropout feature_dropout alpha_dropout feature_alpha_dropout: p >= 0; p <= 1
dropout feature_dropout alpha_dropout feature_alpha_dropout: input dropped train
native_dropout: p between train; input dropped train

softmax log_softmax special_softmax special_log_softmax _softmax _log_softmax: result is floating
_softmax_backward_data _log_softmax_backward_data: grad_output is fractional; grad_output sizes output
logcumsumexp _logcumsumexp: self is fractional
batch_norm instance_norm layer_norm group_norm native_batch_norm native_layer_norm native_group_norm:
    input is fractional
_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training:
    input is fractional
_batch_norm_with_update _batch_norm_no_update _batch_norm_with_update_functional: input is fractional
batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional: input rank 2+
native_batch_norm_backward native_layer_norm_backward native_group_norm_backward batch_norm_backward:
    grad_out is fractional
native_group_norm group_norm: input rank 2+; weight rank 1; bias rank 1
native_group_norm native_group_norm_backward: N >= 0; C >= 0; HxW >= 0; group > 0
native_group_norm_backward: grad_out sizes input; mean rank 2; rstd rank 2; weight rank 1
renorm: self rank 2+; self is fractional; p > 0; maxnorm >= 0

binary_cross_entropy binary_cross_entropy_backward: self is fractional; target as self; weight as self
binary_cross_entropy_with_logits: target is fractional; target covers self
huber_loss_backward: target as self
smooth_l1_loss: beta >= 0
huber_loss: delta > 0
mse_loss smooth_l1_loss huber_loss: operands is floating
kl_div: tensors is fractional
soft_margin_loss: self covers target; self is fractional
soft_margin_loss_backward: self is fractional
multilabel_margin_loss multilabel_margin_loss_forward multi_margin_loss: self is floating
nll_loss_forward nll_loss_backward: self rank 1 2
nll_loss2d_forward nll_loss2d_backward: self rank 4; target rank 3

bartlett_window blackman_window hamming_window hann_window kaiser_window: dtype is floating
fft_fftfreq fft_rfftfreq: dtype is fractional
rand randn rand_like randn_like: result is fractional
exponential cauchy log_normal uniform geometric: self is floating
normal normal_functional: result is fractional
bernoulli.default poisson: self is floating
bernoulli.Tensor: p is floating; self covers p
binomial: count is floating; prob as count
_sample_dirichlet _standard_gamma: self is floating
cauchy: sigma > 0
log_normal: std > 0
multinomial: self is floating; self rank 1 2; num_samples > 0
bernoulli.p: p >= 0; p <= 1
geometric: p > 0; p < 1
uniform: from upto to
exponential: lambd > 0
randint.low randint_like.low_dtype randint.low_generator: low under high
randint.default randint.generator randint_like.default: high > 0
random.from: from under to
random.to: to > 0

gather scatter scatter_add scatter_reduce: index is i32|i64
index_fill: index is i64; index rank 0 1
index_fill.int_Tensor index_fill.Dimname_Tensor: value rank 0
index_copy: index is i64; index rank 0 1
index_add index_reduce index_select: index is i32|i64; index rank 0 1
put take: index is i64
scatter.reduce scatter.value_reduce: reduce one add multiply
scatter_reduce: reduce one sum prod mean amax amin
index_reduce: reduce one prod mean amax amin
_unsafe_index _unsafe_index_put: indices length 1+
masked_scatter: source as self
one_hot: self is i64
nonzero_static: size >= 0
lu_unpack: LU_pivots is i32
linalg_lu_solve: pivots is i32; LU square 2
linalg_ldl_solve: pivots is i32|i64; LD square 2
det linalg_det slogdet linalg_slogdet logdet inverse linalg_inv: tensors square 2
linalg_vector_norm linalg_matrix_norm: self is fractional
linalg_norm: self is fractional
linalg_pinv pinverse: tensors is fractional
norm: self is fractional
kthvalue median nanmedian: self is numeric
roll: shifts length 1+
repeat: repeats >= 0
_cdist_forward cdist: p >= 0
argmax argmin: self is numeric
nll_loss2d: self rank 4; target rank 3
_native_batch_norm_legit_no_training _native_batch_norm_legit batch_norm native_batch_norm: weight rank 1;
    bias rank 1; running_mean rank 1; running_var rank 1
native_batch_norm_backward: input rank 2+; input sizes grad_out; weight rank 1; running_mean rank 1;
    running_var rank 1; save_mean rank 1; save_invstd rank 1
native_layer_norm_backward: normalized_shape length 1+; normalized_shape >= 0; grad_out sizes input
native_layer_norm_backward: normalized_shape tail input
_scaled_dot_product_flash_attention_for_cpu: query filled 3; value filled 3
native_layer_norm layer_norm: normalized_shape length 1+
repeat_interleave.Tensor repeat_interleave.self_Tensor: repeats is i32|i64; repeats rank 0 1; output_size >= 0
repeat_interleave.Tensor: repeats rank 1
bucketize: boundaries rank 1
searchsorted: sorter is i64; sorter sizes sorted_sequence; side one left right
searchsorted.Scalar: sorted_sequence rank 1
tensor_split.tensor_indices_or_sections: tensor_indices_or_sections is i64; tensor_indices_or_sections rank 0 1
value_selecting_reduction_backward: indices is i64
trace_backward: sizes length 2; grad rank 0
index_select_backward: index rank 0 1
embedding: weight rank 2; indices is i32|i64
embedding_bag _embedding_bag _embedding_bag_forward_only: weight rank 2; weight is floating; indices rank 1 2;
    indices is i32|i64
embedding_bag _embedding_bag _embedding_bag_forward_only: offsets rank 1; offsets is i32|i64; mode >= 0; mode <= 2
embedding_bag _embedding_bag _embedding_bag_forward_only: per_sample_weights sizes indices
_embedding_bag_backward _embedding_bag_dense_backward: grad rank 2; indices rank 1; mode >= 0; mode <= 2
_embedding_bag_per_sample_weights_backward: grad rank 2; weight rank 2; indices rank 1
unique_dim unique_consecutive unique_dim_consecutive: tensors is real

cartesian_prod: tensors rank 1; tensors alike
meshgrid: tensors rank 0 1; tensors alike; indexing one ij xy
pad_sequence: padding_side one left right
chain_matmul: matrices rank 2
linear: bias rank 0 1; weight rank 1 2
linalg_multi_dot: tensors length 2+
linalg_vecdot: x is fractional
matrix_H: self rank 0 2
linalg_matrix_power matrix_power: self square 2
matrix_exp linalg_matrix_exp: self square 2; self is fractional
mvlgamma special_multigammaln: p >= 1
quantile nanquantile: self is f32|f64; q >= 0; q <= 1; interpolation one linear lower higher midpoint nearest
_cdist_forward: compute_mode >= 0; compute_mode <= 2
histc: bins > 0; self is floating
unfold unfold_copy: step > 0; size >= 0
split_with_sizes unsafe_split_with_sizes split_with_sizes_copy: split_sizes >= 0
split unsafe_split split_copy: split_size >= 0
as_strided as_strided_copy as_strided_scatter: size >= 0; stride >= 0; storage_offset >= 0; stride aslong size
native_channel_shuffle channel_shuffle: self rank 3+; groups > 0
_chunk_cat: tensors filled 0; num_chunks > 0

slice_scatter: src like slice.Tensor
select_scatter: src like select.int
diagonal_scatter: src like diagonal.default
as_strided_scatter: src like as_strided.default
slice_backward: input_sizes >= 0; grad_output like slice.Tensor
select_backward: input_sizes >= 0; grad_output like select.int
diagonal_backward: input_sizes >= 0; grad_output like diagonal.default
unfold_backward: step > 0; size >= 0; input_sizes >= 0; grad_in like unfold.default broadcast

avg_pool2d_backward: grad_output like avg_pool2d.default
avg_pool3d_backward: grad_output like avg_pool3d.default
max_pool2d_with_indices_backward: grad_output like max_pool2d_with_indices.default; indices sizes grad_output;
    indices is i64; grad_output as self
max_pool3d_with_indices_backward: grad_output like max_pool3d_with_indices.default; indices sizes grad_output;
    indices is i64; grad_output as self
_adaptive_avg_pool2d_backward: grad_output rank 3 4; self rank 3 4; grad_output leads self 2;
    grad_output filled 1; grad_output as self
_adaptive_avg_pool3d_backward: grad_output rank 4 5; self rank 4 5; grad_output leads self 3;
    grad_output filled 1; grad_output as self
adaptive_max_pool2d_backward: grad_output rank 3 4; grad_output sizes indices; grad_output leads self 2;
    grad_output as self; grad_output filled -3; indices is i64
adaptive_max_pool3d_backward: grad_output rank 4 5; grad_output sizes indices; grad_output leads self 3;
    grad_output as self; grad_output filled -4; indices is i64
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d:
    self is floating
max_unpool2d: self rank 3 4; self filled 1; indices is i64; output_size >= 0; output_size length 2; indices sizes self
max_unpool3d: self rank 4 5; self filled 1; indices is i64; output_size >= 0; output_size length 3; stride length 3;
    stride > 0; indices sizes self
reflection_pad1d_backward: grad_output like reflection_pad1d.default
reflection_pad2d_backward: grad_output like reflection_pad2d.default
reflection_pad3d_backward: grad_output like reflection_pad3d.default
replication_pad1d_backward: grad_output like replication_pad1d.default
replication_pad2d_backward: grad_output like replication_pad2d.default
replication_pad3d_backward: grad_output like replication_pad3d.default

upsample_nearest1d _upsample_nearest_exact1d upsample_linear1d: self rank 3; output_size length 1;
    output_size > 0; self filled 1; self is fractional|u8
upsample_nearest2d _upsample_nearest_exact2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa
    _upsample_bicubic2d_aa: self rank 4; output_size length 2; output_size > 0; self filled 1;
    self is fractional|u8
upsample_nearest3d _upsample_nearest_exact3d upsample_trilinear3d: self rank 5; output_size length 3;
    output_size > 0; self filled 1; self is fractional|u8
upsample_nearest1d_backward: input_size length 3; input_size >= 0; grad_output like upsample_nearest1d.default
upsample_nearest2d_backward: input_size length 4; input_size >= 0; grad_output like upsample_nearest2d.default
upsample_nearest3d_backward: input_size length 5; input_size >= 0; grad_output like upsample_nearest3d.default
_upsample_nearest_exact1d_backward: input_size length 3; input_size >= 0;
    grad_output like _upsample_nearest_exact1d.default
_upsample_nearest_exact2d_backward: input_size length 4; input_size >= 0;
    grad_output like _upsample_nearest_exact2d.default
_upsample_nearest_exact3d_backward: input_size length 5; input_size >= 0;
    grad_output like _upsample_nearest_exact3d.default
upsample_linear1d_backward: input_size length 3; input_size >= 0; grad_output like upsample_linear1d.default
upsample_bilinear2d_backward: input_size length 4; input_size >= 0; grad_output like upsample_bilinear2d.default
upsample_bicubic2d_backward: input_size length 4; input_size >= 0; grad_output like upsample_bicubic2d.default
upsample_trilinear3d_backward: input_size length 5; input_size >= 0; grad_output like upsample_trilinear3d.default
affine_grid_generator: theta is floating; theta rank 3; size length 4 5; size > 0
grid_sampler_2d grid_sampler_2d_backward: input rank 4; grid rank 4; grid as input
grid_sampler_3d grid_sampler_3d_backward: input rank 5; grid rank 5; grid as input

fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask: self is floating;
    quant_min upto quant_max
fake_quantize_per_tensor_affine.default fake_quantize_per_tensor_affine_cachemask: quant_min upto zero_point;
    zero_point upto quant_max
_fake_quantize_per_tensor_affine_cachemask_tensor_qparams: self is floating; quant_min upto quant_max
fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask: self is floating;
    quant_min upto quant_max
fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask: scale rank 1; zero_point rank 1

sub subtract rsub: self is numeric; other is numeric
add sub subtract rsub addr: alpha suits operands
addr: beta suits operands
pow.Tensor_Scalar: exponent natural operands
pow.Tensor_Tensor addcmul: operands is numeric
remainder.Scalar fmod.Scalar floor_divide.Scalar: other divides operands
hardtanh: min_val signed self; max_val signed self
cross linalg_cross: self is numeric; other as self; self ranks other 0
linalg_cross: self three dim; other three dim
lerp.Tensor: self is fractional
isclose allclose: other as self
isin: element is numeric; test_element is numeric; operands is numeric
mvlgamma special_multigammaln: self is numeric
prelu _prelu_kernel _prelu_kernel_backward: weight as self
_prelu_kernel_backward log_sigmoid_backward: grad_output as self
log_sigmoid_backward: buffer as self; buffer spreads self
kthvalue: k within self
take_along_dim: indices is i64
trapezoid.dx cumulative_trapezoid.dx: dx is numeric
cumulative_trapezoid.x trapezoid.x trapz.x: x ranks y 0 vector
gradient: tensors is no_byte; dim distinct self
unflatten: sizes length 1+
hsplit: self rank 1+
vsplit: self rank 2+
dsplit: self rank 3+
index index_put _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate:
    indices some tensor
_unsafe_masked_index _unsafe_masked_index_put_accumulate: indices is i32|i64
index_copy: source as self; source ranks self 0 scalar; index counts source
index_select_backward: index counts grad
put: source as self
masked_select: mask broadcasts self
arange linspace logspace: dtype is numeric
linspace logspace: steps >= 0
one_hot: num_classes not 0
softshrink: lambd >= 0; lambd finite number
item: self single element
searchsorted.Tensor searchsorted.Scalar bucketize: self is numeric
searchsorted.Tensor: self searches sorted_sequence

addmm bmm baddbmm inner linear matmul linalg_matmul linalg_multi_dot chain_matmul matrix_power linalg_matrix_power:
    tensors is numeric
addmm: self as mat2
baddbmm: batch1 as self; batch2 as self
_linalg_det _linalg_slogdet: A square 2
_linalg_svd linalg_svd linalg_svdvals: driver cuda A
linalg_vander: N > 1; x is numeric
linalg_vecdot: y as x
linalg_vector_norm linalg_norm linalg_matrix_norm norm: dtype widens self; dtype widens A
bilinear: input1 ends weight 1; input2 ends weight 2; bias vector weight 0
cdist _cdist_forward: x1 is floating; x2 is floating
cdist: compute_mode >= 0; compute_mode <= 2
_cdist_backward: grad is floating; x1 as grad; x2 as grad; cdist as grad
_pdist_forward: self contiguous memory
pinverse linalg_pinv: tensors is f32|f64|c64|c128
quantile nanquantile: self filled 0; q rank 0 1
unique_dim unique_dim_consecutive unique_consecutive: self sorts dim

conv1d: input rank 2 3
conv2d: input rank 3 4
conv3d: input rank 4 5
avg_pool1d avg_pool2d avg_pool3d: self is floating|i64
avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
    max_pool3d_with_indices: kernel_size > 0; stride > 0; padding >= 0; dilation > 0
avg_pool1d max_pool1d max_pool1d_with_indices: kernel_size length 1; padding length 1; dilation length 1
avg_pool2d max_pool2d max_pool2d_with_indices: kernel_size length 1 2; padding length 1 2; dilation length 1 2
avg_pool3d max_pool3d max_pool3d_with_indices: kernel_size length 1 3; padding length 1 3; dilation length 1 3
adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d: output_size length 2
adaptive_avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d: output_size length 3
adaptive_avg_pool2d _adaptive_avg_pool2d: self filled -2
adaptive_avg_pool3d _adaptive_avg_pool3d: self filled 1
max_pool1d: self is floating
max_pool2d max_pool3d: self is numeric
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d: self is floating; self filled 1
_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
    adaptive_max_pool3d_backward: self is floating
fractional_max_pool2d: kernel_size length 2; output_size length 2; self filled 1
fractional_max_pool3d: kernel_size length 3; output_size length 3; self filled 1
im2col: self is fractional|b8
reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d:
    self is numeric
reflection_pad1d replication_pad1d: self filled -2
reflection_pad2d replication_pad2d: self filled -3
reflection_pad3d replication_pad3d: self filled -4
reflection_pad1d_backward replication_pad1d_backward: padding length 2
reflection_pad2d_backward replication_pad2d_backward: padding length 4
reflection_pad3d_backward replication_pad3d_backward: padding length 6
grid_sampler: grid is fractional
grid_sampler grid_sampler_2d grid_sampler_3d grid_sampler_2d_backward grid_sampler_3d_backward: input filled 2
upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec _upsample_nearest_exact1d.vec
    _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec upsample_linear1d.vec upsample_bilinear2d.vec
    upsample_trilinear3d.vec upsample_bicubic2d.vec _upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa.vec:
    output_size either scale_factors; scale_factors > 0

_softmax_backward_data _log_softmax_backward_data: grad_output as output
batch_norm instance_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional:
    running_mean statistics running_var
_native_batch_norm_legit_functional: weight rank 1; bias rank 1; running_mean rank 1; running_var rank 1
native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    batch_norm: weight|bias|running_mean|running_var mixed input
_native_batch_norm_legit.no_stats: input filled 0
layer_norm native_layer_norm: weight|bias mixed input; weight shaped normalized_shape; bias shaped normalized_shape
native_group_norm: weight long C; bias long C
batch_norm_backward: input rank 2+; input sizes grad_out; weight rank 1; running_mean rank 1; running_var rank 1;
    save_mean rank 1; save_var rank 1
embedding_renorm: self rank 2; indices is i32|i64
_weight_norm _weight_norm_interface: v rank 1+; v is floating; g as v
_weight_norm_interface_backward: saved_v is floating; grad_w as saved_v; saved_g as saved_v; saved_v contiguous memory;
    saved_g contiguous memory; saved_norms contiguous memory; saved_v outermost dim

mse_loss_backward smooth_l1_loss_backward mish_backward: self holds operands
mse_loss_backward smooth_l1_loss_backward: self is numeric
huber_loss_backward: self is floating; grad_output as self; target as self
soft_margin_loss_backward: target is numeric
multilabel_margin_loss multilabel_margin_loss_forward: self rank 0 1 2; target is i64
multi_margin_loss: self rank 0 1 2
cosine_embedding_loss: input1 ranks target 1; input2 ranks target 1
triplet_margin_loss: positive ranks anchor 0; negative ranks anchor 0
nll_loss_forward nll_loss_backward: target rank 0 1; target batches self; total_weight single element
nll_loss nll_loss_nd nll_loss2d nll_loss2d_forward nll_loss2d_backward: target batches self

rrelu rrelu_with_noise rrelu_with_noise_functional: lower finite number; upper finite number; lower upto upper
rrelu_with_noise rrelu_with_noise_functional: noise as self
uniform: from finite number; to finite number
histc: min finite number; max finite number
bincount: minlength >= 0
binomial: count covers prob
random.from: from bounded self; to bounded self
random.to: to bounded self
randint_like.low_dtype: low bounded self
repeat_interleave.self_int: repeats >= 0
segment_reduce: reduce one sum prod mean amax amin max min
fft_fftshift fft_ifftshift: dim length 1+
empty.memory_format: memory_format format contiguous
fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask: scale is f32|bf16;
    zero_point is i32|f32|f16; axis >= 0; scale along self; zero_point along self
_chunk_cat: tensors alike
max_pool2d_with_indices_backward: kernel_size length 1 2; padding length 1 2; dilation length 1 2
max_pool3d_with_indices_backward: kernel_size length 1 3; padding length 1 3; dilation length 1 3
max_pool2d_with_indices_backward max_pool3d_with_indices_backward: stride > 0; padding >= 0; dilation > 0
clamp clip clamp_min clamp_max threshold: result is numeric
clamp clip clamp_min clamp_max: min|max held result
hardtanh: min_val|max_val held self
threshold: threshold held self wide; value held self
masked_fill.Scalar index_fill.int_Scalar scatter.value: value held self
where.ScalarSelf where.Scalar: self held result wide
where.ScalarOther where.Scalar: other held result wide
add.Tensor sub.Tensor rsub.Tensor subtract.Tensor: alpha held operands
addcmul addcdiv: value held operands integral
pow.Tensor_Scalar: exponent held operands integral
fill.Scalar: value held self integral
full full_like new_full: fill_value held result integral
div.Tensor_mode divide.Tensor_mode div.Scalar_mode divide.Scalar_mode: result is numeric
group_norm native_group_norm: weight|bias mixed input
group_norm: weight vector input 1; bias vector input 1
native_group_norm: input totals N C HxW
std var std_mean var_mean: self is fractional
take put: index reaches self whole
gather scatter scatter_add scatter_reduce index_select index_copy index_fill: index reaches self dim
index_add: source ranks self 0; index reaches self slices
index_add index_copy index_reduce: source slices self
embedding_renorm: indices reaches self 0
embedding embedding_bag _embedding_bag _embedding_bag_forward_only: indices reaches weight 0
linear: bias spreads weight 0
leaky_relu_backward: negative_slope unless self_is_result
elu_backward: alpha unless is_result
_scaled_dot_product_flash_attention_for_cpu: query rank 4; key rank 4; value rank 4
randint.low randint_like.low_dtype: low bounded result; high bounded result
randint.default randint_like.default: high bounded result
index_select_backward: self_sizes >= 0; grad like index_select.default
pdist _pdist_forward: p >= 0
_softmax_backward_data _log_softmax_backward_data: input_dtype of grad_output
multilabel_margin_loss multilabel_margin_loss_forward: self filled -1; target fits self
logsumexp special_logsumexp: dim reduces self
instance_norm: weight rank 0 1; bias rank 0 1; running_mean rank 0 1; running_var rank 0 1
native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional: input counted training
_weight_norm_interface_backward: saved_v rank 1+
float_power_: self is f64|c128
cumsum_ cumprod_: dtype as self
roll: shifts rolls dims
diff: prepend ranks self 0; append ranks self 0
trapezoid.x trapz.x cumulative_trapezoid.x: x samples y
cdist _cdist_forward: x1 columns x2; x2 as x1
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution convolution_backward:
    stride > 0; padding >= 0; dilation > 0; output_padding >= 0; groups > 0
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution: bias rank 1; bias as input
gradient.tensorarray gradient.tensorarrayint: spacing rank 1
gradient.scalarrayint gradient.scalarrayarray gradient.tensorarray gradient.tensorarrayint: spacing steps self
expand expand_copy: size >= -1
empty_strided new_empty_strided: size >= 0; stride >= 0; stride aslong size
_unsafe_index _unsafe_index_put: indices is i32|i64
_embedding_bag_dense_backward: grad is floating
_embedding_bag_per_sample_weights_backward: mode >= 0; mode <= 0
nll_loss nll_loss_nd nll_loss2d nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward:
    self is floating; target is i64|u8; weight as self
cross_entropy_loss: target is floating|i64|u8
multi_margin_loss multi_margin_loss_backward: weight as self
im2col col2im: kernel_size > 0; dilation > 0; stride > 0; padding >= 0
upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec _upsample_nearest_exact1d.vec
    _upsample_nearest_exact2d.vec _upsample_nearest_exact3d.vec upsample_linear1d.vec upsample_bilinear2d.vec
    upsample_trilinear3d.vec upsample_bicubic2d.vec _upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa.vec:
    input filled 1; input is fractional|u8; output_size > 0
upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward upsample_trilinear3d_backward:
    grad_output is floating
reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward: grad_output is fractional
_fft_r2c _fft_c2r fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft2 fft_hfftn fft_ihfft2 fft_ihfftn: dim length 1+
_fft_c2r: last_dim_size > 0
_fft_r2c: self is floating
)";

}  // namespace coil::ops
