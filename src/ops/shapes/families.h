// The operator families: each registers the schemas and shape functions of its operators. A new family is one line
// here.
#pragma once
#include <initializer_list>

namespace coil::ops {

namespace shapes {
void register_pointwise();
void register_binary();
void register_casts();
void register_creation();
void register_views();
void register_view_lists();
void register_makers();
void register_indexing();
void register_reductions();
void register_scans();
void register_normalization();
void register_linalg();
void register_factorizations();
void register_convolution();
void register_pooling();
void register_resampling();
void register_losses();
void register_recurrent();
void register_gradients();
void register_window_gradients();
void register_lists();
void register_symbolic();
void register_data_dependent();
void register_composites();
void register_wrapper();
void register_user_kernel();
void register_collectives();
}  // namespace shapes

inline constexpr std::initializer_list<void (*)()> kFamilies = {
    shapes::register_pointwise,
    shapes::register_binary,
    shapes::register_casts,
    shapes::register_creation,
    shapes::register_views,
    shapes::register_view_lists,
    shapes::register_makers,
    shapes::register_indexing,
    shapes::register_reductions,
    shapes::register_scans,
    shapes::register_normalization,
    shapes::register_linalg,
    shapes::register_factorizations,
    shapes::register_convolution,
    shapes::register_pooling,
    shapes::register_resampling,
    shapes::register_losses,
    shapes::register_gradients,
    shapes::register_window_gradients,
    shapes::register_lists,
    shapes::register_recurrent,
    shapes::register_symbolic,
    shapes::register_data_dependent,
    shapes::register_composites,
    shapes::register_user_kernel,
    shapes::register_wrapper,
    shapes::register_collectives,
};

}  // namespace coil::ops
