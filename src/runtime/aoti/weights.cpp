#include "runtime/aoti/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "runtime/aoti/memory.h"
#include "runtime/executor/constant_memory.h"
#include "runtime/executor/model.h"
#include "runtime/plan/plan_check.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime::aoti {
namespace {

constexpr std::uint64_t kBlobAlignment = 64;

/// A queue in order with what torch has queued.
std::unique_ptr<Queue> queue_of(const Model& model) {
  auto queue = model.impl().device->make_queue();
  const Device device = queue->device();
  using Current = std::int32_t(std::int32_t, void**);
  if (!device.is_host())
    if (auto* current = torch().find<Current>("aoti_torch_get_current_" + device.type.name() + "_stream")) {
      void* stream = nullptr;
      const QueueScope scope(*queue);
      if (current(device.index, &stream) == 0 && stream) queue->set_stream(stream);
    }
  return queue;
}

std::uint64_t blob_place(std::uint64_t at) { return (at + kBlobAlignment - 1) / kBlobAlignment * kBlobAlignment; }

std::uint64_t dense_bytes(const TorchWeight& w) {
  return static_cast<std::uint64_t>(numel(w.sizes)) * size_of(w.dtype);
}

}  // namespace

std::string flat_name(const std::string& name) {
  std::string flat = name;
  for (char& c : flat)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return flat;
}

Weights::Weights(std::shared_ptr<const Model> model, const TorchInterface& interface) : interface_(interface) {
  const Plan& plan = model->plan();
  for (std::size_t i = 0; i < plan.constants.size(); ++i) {
    constants_.emplace(plan.constants[i].name, i);
    has_states_ = has_states_ || (plan.constants[i].state && !plan.constants[i].seed);
  }
  for (std::size_t i = 0; i < interface.weights.size(); ++i) {
    const TorchWeight& w = interface.weights[i];
    if (!w.constant.empty() && !constants_.contains(w.constant))
      fail("the package says that weight '{}' is the program's constant '{}', which is not there", w.name, w.constant);
    by_name_.emplace(w.name, i);
  }
  for (std::size_t i = 0; i < interface.weights.size(); ++i)  // (a name as it is comes before one made flat)
    by_name_.emplace(flat_name(interface.weights[i].name), i);
  std::vector<char> shown(plan.constants.size(), 0);
  for (const Output& out : plan.outputs)
    if (out.kind == Output::Kind::Tensor)
      if (const Buffer& b = plan.buffers[memory_of(plan, out.view.buffer)]; b.kind == BufferKind::Constant)
        shown[b.index] = 1;
  sets_[0] = {std::move(model), {}, std::vector<char>(plan.constants.size(), 0)};
  // What leaves the program by itself must outlive it, and what it writes to is shared by all that run it.
  own(sets_[0], [&](std::size_t i) { return shown[i] || (plan.constants[i].state && !plan.constants[i].seed); });
}

template <class F>
void Weights::own(Set& set, F&& chosen) {
  std::vector<Tensor> constants = set.model->constants();
  std::vector<char> moved(constants.size(), 0);
  const auto queue = queue_of(*set.model);
  const QueueScope scope(*queue);
  for (const ConstantPiece& piece : constant_pieces(constants)) {
    const auto is_foreign = [&](std::size_t i) { return set.borrowed[i] || !is_torchs(constants[i].storage); };
    if (!std::ranges::any_of(piece.constants, chosen) || std::ranges::none_of(piece.constants, is_foreign)) continue;
    move_piece(piece, allocate(piece.bytes(), set.model->plan().device), 0, constants, *queue);
    for (std::size_t i : piece.constants) moved[i] = 1;
  }
  queue->wait();
  if (std::ranges::none_of(moved, [](char m) { return m != 0; }) && set.model->impl().states_in_place) return;
  set.model = set.model->over_memory(std::move(constants));
  set.seen.clear();
  for (std::size_t i = 0; i < moved.size(); ++i)
    if (moved[i]) set.borrowed[i] = 0;
}

std::size_t Weights::constant_of(const TorchWeight& w) const { return constants_.at(w.constant); }

const TorchWeight& Weights::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) fail("the program has no weight '{}'", name);
  return interface_.weights[found->second];
}

void Weights::check_all_there(std::span<const NewWeight> given) const {
  std::vector<std::string> missing;
  for (const TorchWeight& w : interface_.weights)
    if (w.is_parameter && std::ranges::none_of(given, [&](const NewWeight& g) { return &find(g.first) == &w; }))
      missing.push_back(w.name);
  if (!missing.empty())
    fail("all parameters are wanted, but {} {} not given", fmt::join(missing, ", "),
         missing.size() == 1 ? "is" : "are");
}

Tensor Weights::checked(const TorchWeight& w, AtenTensorHandle handle, const UpdateOptions& options) const {
  if (!handle) fail("weight '{}' is given no tensor", w.name);
  TensorHandle own_handle = made([&](AtenTensorHandle* to) { torch().new_tensor_handle(handle, to); });
  Tensor t = from_torch(as_it_lies(std::move(own_handle), w.name, options.borrowed), w.name);
  if (t.dtype != w.dtype || t.sizes != w.sizes)
    fail("weight '{}' is {}[{}], but {}[{}] was given", w.name, torch_name(w.dtype), fmt::join(w.sizes, ", "),
         torch_name(t.dtype), fmt::join(t.sizes, ", "));
  const Device device = model()->plan().device;
  if (t.device() != device && !(options.from_host && t.device().is_host()))
    fail("weight '{}' must be on {}, but what was given is on {}", w.name, to_string(device), to_string(t.device()));
  t.check_bounds();
  if (options.borrowed && !same_layout(w.sizes, t.strides, w.strides))
    fail(
        "weight '{}' has strides [{}] in the program, but [{}] in the tensor that is to be used in place: give a copy "
        "in these strides",
        w.name, fmt::join(w.strides, ", "), fmt::join(t.strides, ", "));
  return t;
}

void Weights::update(std::span<const NewWeight> given, const UpdateOptions& options) {
  if (interface_.fixed)
    fail("the weights of this package cannot be exchanged, since it was compiled with keep_weights=false");
  if (options.borrowed && options.from_host) fail("weights on the host cannot be used in place");
  std::vector<std::pair<const TorchWeight*, Tensor>> values;
  for (const auto& [name, handle] : given) values.emplace_back(&find(name), checked(find(name), handle, options));
  if (options.full) check_all_there(given);
  std::erase_if(values, [](const auto& v) { return v.first->constant.empty(); });
  Set& set = options.inactive ? inactive() : sets_[active_];
  if (options.borrowed)
    lay_in(set, values);
  else
    copy_in(set, values);
}

Weights::Set& Weights::inactive() {
  const Set& active = sets_[active_];
  Set& set = sets_[1 - active_];
  if (!set.model) {
    Set copy{active.model, {}, std::vector<char>(active.borrowed.size(), 1)};
    own(copy, [](std::size_t) { return true; });
    set = std::move(copy);
    return set;
  }
  std::vector<std::pair<const TorchWeight*, Tensor>> buffers;
  for (const TorchWeight& w : interface_.weights)
    if (!w.is_parameter && !w.constant.empty())
      buffers.emplace_back(&w, seen_as(w, active.model->constants()[constant_of(w)]));
  copy_in(set, buffers);
  return set;
}

void Weights::copy_in(Set& set, const std::vector<std::pair<const TorchWeight*, Tensor>>& values) {
  std::vector<char> chosen(set.borrowed.size(), 0);
  for (const auto& [w, value] : values) chosen[constant_of(*w)] = 1;
  own(set, [&](std::size_t i) { return chosen[i] != 0; });
  const auto queue = queue_of(*set.model);
  const QueueScope scope(*queue);
  for (const auto& [w, value] : values) {
    const Tensor to = seen_as(*w, set.model->constants()[constant_of(*w)]);
    if (value.numel() > 0 && value.bytes() != to.bytes()) queue->copy(to, value);
  }
  queue->wait();
}

void Weights::lay_in(Set& set, const std::vector<std::pair<const TorchWeight*, Tensor>>& values) {
  std::vector<Tensor> constants = set.model->constants();
  std::vector<char> borrowed = set.borrowed;
  for (const auto& [w, value] : values) {
    Tensor& t = constants[constant_of(*w)];
    t.storage = value.storage;
    t.offset = value.offset * (t.dtype == w->dtype ? 1 : 2);  // (see seen_as)
    borrowed[constant_of(*w)] = 1;
  }
  set = {set.model->over_memory(std::move(constants)), {}, std::move(borrowed)};
}

/// Complex weights are pairs of real numbers in the program.
Tensor Weights::seen_as(const TorchWeight& w, const Tensor& constant) const {
  Tensor t = constant;
  if (t.dtype == w.dtype) return t;
  t.dtype = w.dtype;
  t.sizes = w.sizes;
  t.strides = w.strides;
  t.offset /= 2;
  return t;
}

void Weights::swap() {
  if (!sets_[1 - active_].model)
    fail("there is no inactive set of weights to swap to; update one first, with use_inactive");
  active_ = 1 - active_;
}

void Weights::free_inactive() { sets_[1 - active_] = {}; }

std::vector<NewWeight> Weights::look(bool of_inactive) {
  Set& set = sets_[of_inactive ? 1 - active_ : active_];
  std::vector<NewWeight> found;
  if (!set.model) return found;
  if (!interface_.fixed) {
    std::vector<char> own_ones(set.borrowed.size(), 0);
    for (std::size_t i = 0; i < own_ones.size(); ++i) own_ones[i] = !set.borrowed[i];
    own(set, [&](std::size_t i) { return own_ones[i] != 0; });
  }
  set.seen.clear();
  for (const TorchWeight& w : interface_.weights) {
    if (w.constant.empty()) continue;
    const Tensor& t = set.model->constants()[constant_of(w)];
    set.seen.push_back(is_torchs(t.storage) ? view_in_torch(t, w.dtype, w.sizes, w.strides) : to_torch(seen_as(w, t)));
    found.emplace_back(w.name, set.seen.back().get());
  }
  return found;
}

std::uint64_t Weights::blob_bytes() const {
  std::uint64_t at = 0;
  for (const TorchWeight& w : interface_.weights) at = blob_place(at) + dense_bytes(w);
  return at;
}

void Weights::update_from_blob(const std::uint8_t* blob) {
  if (interface_.fixed)
    fail("the weights of this package cannot be exchanged, since it was compiled with keep_weights=false");
  std::vector<std::pair<const TorchWeight*, Tensor>> values;
  std::uint64_t at = 0;
  for (const TorchWeight& w : interface_.weights) {
    at = blob_place(at);
    auto* data = reinterpret_cast<std::byte*>(const_cast<std::uint8_t*>(blob + at));
    const Storage storage{std::shared_ptr<std::byte>(data, [](std::byte*) {}), dense_bytes(w)};
    if (!w.constant.empty()) values.emplace_back(&w, Tensor{storage, w.dtype, w.sizes, contiguous_strides(w.sizes), 0});
    at += dense_bytes(w);
  }
  copy_in(sets_[active_], values);
}

}  // namespace coil::runtime::aoti
