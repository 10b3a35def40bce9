#include "library_ops/table.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "support/error.h"

namespace coil::library_ops {
namespace {

/// Nodes of a map stay where they are, so that pointers to descriptors outlive later definitions.
struct Defined {
  std::mutex mutex;
  std::map<std::string, Descriptor, std::less<>> by_name;
};

Defined& defined() {
  static Defined d;
  return d;
}

const std::map<std::string_view, const Descriptor*>& builtin_by_name() {
  static const auto made = [] {
    std::map<std::string_view, const Descriptor*> by_name;
    for (const Descriptor& d : builtin()) COIL_CHECK(by_name.emplace(d.name, &d).second, "{} stands twice", d.name);
    return by_name;
  }();
  return made;
}

}  // namespace

const std::vector<Descriptor>& builtin() {
  static const std::vector<Descriptor> all = [] {
    std::vector<Descriptor> list;
    for (const auto group : {product_ops, convolution_ops, attention_ops, sorting_ops, recurrent_ops, selection_ops,
                             check_ops, matrix_ops, fourier_ops, collective_ops, copy_ops})
      for (Descriptor& d : group()) list.push_back(std::move(d));
    return list;
  }();
  return all;
}

const Descriptor* find(std::string_view op) {
  const auto& ours = builtin_by_name();
  if (const auto found = ours.find(op); found != ours.end()) return found->second;
  Defined& others = defined();
  const std::lock_guard lock(others.mutex);
  const auto found = others.by_name.find(op);
  return found == others.by_name.end() ? nullptr : &found->second;
}

const Descriptor& get(std::string_view op) {
  if (const Descriptor* found = find(op)) return *found;
  fail("there is no library operation '{}'", op);
}

bool has(std::string_view op, Trait trait) {
  const Descriptor* found = find(op);
  return found && found->traits.has(trait);
}

bool works_on_copies(std::string_view op) {
  constexpr Trait kNot[] = {Trait::Kernel,  Trait::Collective, Trait::Wait,        Trait::Exchange,
                            Trait::Barrier, Trait::DeviceCopy, Trait::ReadsAddress};
  return std::ranges::none_of(kNot, [op](Trait t) { return has(op, t); });
}

void define(Descriptor d) {
  if (builtin_by_name().contains(d.name)) return;
  Defined& others = defined();
  const std::lock_guard lock(others.mutex);
  std::string name = d.name;
  others.by_name.try_emplace(std::move(name), std::move(d));
}

const AttributeInfo* Descriptor::attribute(std::string_view attribute_name) const {
  const auto found = std::ranges::find(attributes, attribute_name, &AttributeInfo::name);
  return found == attributes.end() ? nullptr : &*found;
}

std::optional<std::size_t> Descriptor::packable() const {
  const auto found = std::ranges::find(operands, true, &Operand::packable);
  return found == operands.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - operands.begin()));
}

std::string_view to_string(Trait trait) {
  switch (trait) {
    case Trait::Product: return "is a product of matrices";
    case Trait::Convolution: return "is a convolution";
    case Trait::ConvolutionGradient: return "is the gradient of a convolution's weight";
    case Trait::TakesPostOps: return "takes post-operations";
    case Trait::ChannelsLast: return "likes its operands channels-last";
    case Trait::Assertion: return "is an assertion";
    case Trait::ReadsAddress: return "asks where its operand lies";
    case Trait::Kernel: return "is a kernel of Coil's own on every device that has it";
    case Trait::Collective: return "exchanges values with other processes";
    case Trait::Wait: return "waits for a collective";
    case Trait::Exchange: return "exchanges values with other processes, and is done when it returns";
    case Trait::Barrier: return "is a barrier";
    case Trait::OneShotSum: return "has every rank add up the operands of all";
    case Trait::PeerSum: return "has kernels add up over the ranks what they read";
    case Trait::DeviceCopy: return "moves a tensor between devices";
  }
  return {};
}

}  // namespace coil::library_ops
