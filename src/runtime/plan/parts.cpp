#include "runtime/plan/parts.h"

#include <algorithm>

#include "runtime/plan/plan_check.h"

namespace coil::runtime {
namespace {

using Kind = Control::Kind;

bool opens(const Control& c) { return c.kind == Kind::If || c.kind == Kind::Loop; }
bool closes(const Control& c) { return c.kind == Kind::EndIf || c.kind == Kind::EndLoop; }
bool is_call(const Step& s) { return std::holds_alternative<KernelCall>(s) || std::holds_alternative<ExternCall>(s); }

class Finder {
 public:
  Finder(const Plan& plan, const ShapeStages& stages) : plan_(plan), stages_(stages), end_of_(plan.steps.size()) {
    std::vector<std::uint32_t> open;
    for (std::uint32_t k = 0; k < plan.steps.size(); ++k) {
      const auto* c = std::get_if<Control>(&plan.steps[k]);
      if (c && opens(*c)) open.push_back(k);
      if (!c || !closes(*c)) continue;
      end_of_[open.back()] = k;
      open.pop_back();
    }
  }

  std::vector<Part> run() {
    const auto count = static_cast<std::uint32_t>(plan_.steps.size());
    Part part;
    const auto close = [&](std::uint32_t end) {
      part.end = end;
      const auto calls = std::count_if(plan_.steps.begin() + part.first, plan_.steps.begin() + end, is_call);
      if (calls >= static_cast<std::ptrdiff_t>(kFewestRecorded)) found_.push_back(part);
    };
    for (std::uint32_t k = 0; k < count;) {
      const std::uint32_t behind = unit(k);
      if (behind > k) {
        k = behind;
        continue;
      }
      close(k);
      note(plan_.steps[k]);
      part = {++k, k, {}, {}, numbers_};
    }
    close(count);
    return std::move(found_);
  }

 private:
  /// The step behind the one, or the block, that begins here and can be recorded; this one where it cannot.
  std::uint32_t unit(std::uint32_t k) const {
    const auto* c = std::get_if<Control>(&plan_.steps[k]);
    if (!c) return can_be_in_part(plan_, plan_.steps[k]) ? k + 1 : k;
    if (!opens(*c)) return k;
    std::vector<Slot> counters;
    for (std::uint32_t i = k; i <= end_of_[k]; ++i)
      if (const auto* loop = std::get_if<Control>(&plan_.steps[i]); loop && loop->kind == Kind::Loop)
        counters.push_back(loop->counter);
    for (std::uint32_t i = k; i <= end_of_[k]; ++i)
      if (!goes_the_same_way(plan_.steps[i], counters)) return k;
    return end_of_[k] + 1;
  }

  /// Whether a step in a block does the same in each run, with memory of one size in all turns.
  bool goes_the_same_way(const Step& step, const std::vector<Slot>& counters) const {
    const auto* c = std::get_if<Control>(&step);
    const bool decides = c && (opens(*c) || c->kind == Kind::BreakUnless);
    if (!can_be_in_part(plan_, step) || (decides && stages_.of[c->value] != 0)) return false;
    const auto* a = std::get_if<AllocateBuffer>(&step);
    return !a || !depends(plan_.buffers[a->buffer].bytes, counters);
  }

  bool depends(Slot slot, const std::vector<Slot>& on) const {
    if (stages_.of[slot] == 0) return false;
    if (std::ranges::find(on, slot) != on.end()) return true;
    const ShapeInstruction& in = plan_.shape_program[slot];
    const std::int64_t operands[] = {in.a, in.b, in.c};
    for (int k = 0; k < slot_operands(in.op); ++k)
      if (depends(static_cast<Slot>(operands[k]), on)) return true;
    return false;
  }

  void note(const Step& step) {
    if (const auto* r = std::get_if<ReadSymbol>(&step)) numbers_.push_back(r->symbol);
    if (const auto* s = std::get_if<SetNumber>(&step)) numbers_.push_back(s->symbol);
    const auto* c = std::get_if<Control>(&step);
    if (c && c->kind == Kind::Loop) numbers_.push_back(c->counter);
  }

  const Plan& plan_;
  const ShapeStages& stages_;
  std::vector<std::uint32_t> end_of_;  ///< of a step that opens a block, the one that closes it
  std::vector<Slot> numbers_;          ///< that the steps so far have given
  std::vector<Part> found_;
};

}  // namespace

void for_each_buffer(const Step& step, const std::function<void(BufferId)>& f) {
  if (const auto* kernel = std::get_if<KernelCall>(&step)) std::ranges::for_each(kernel->buffers, f);
  if (const auto* call = std::get_if<ExternCall>(&step))
    for (const auto* views : {&call->inputs, &call->outputs})
      for (const View& v : *views) f(v.buffer);
  if (const auto* call = std::get_if<HostCall>(&step)) {
    for (const View& v : call->inputs) f(v.buffer);
    for (const std::optional<View>& v : call->outputs)
      if (v) f(v->buffer);
  }
  if (const auto* read = std::get_if<ReadSymbol>(&step)) f(read->source);
}

bool can_be_in_part(const Plan& plan, const Step& step) {
  if (std::holds_alternative<AssertCall>(step) || std::holds_alternative<HostCall>(step) ||
      std::holds_alternative<ReadSymbol>(step) || std::holds_alternative<SetNumber>(step))
    return false;
  bool here = true;
  const auto look = [&](BufferId b) { here = here && plan.buffers[b].place == 0; };
  for_each_buffer(step, look);
  if (const auto* a = std::get_if<AllocateBuffer>(&step)) look(a->buffer);
  if (const auto* f = std::get_if<FreeBuffer>(&step)) look(f->buffer);
  return here;
}

std::vector<Part> parts_of(const Plan& plan, const ShapeStages& stages) {
  return plan.parts.empty() ? Finder(plan, stages).run() : plan.parts;
}

PartMemory memory_of(const Plan& plan, const Part& part) {
  std::vector<BufferId> made, freed;
  std::vector<Interval> when;  // of `made`
  for (std::uint32_t k = part.first; k < part.end; ++k) {
    if (const auto* a = std::get_if<AllocateBuffer>(&plan.steps[k])) {
      const BufferId owner = memory_of(plan, a->buffer);
      if (std::ranges::find(made, owner) == made.end()) made.push_back(owner), when.push_back({0, k, part.end});
    }
    if (const auto* f = std::get_if<FreeBuffer>(&plan.steps[k])) freed.push_back(memory_of(plan, f->buffer));
    const auto place = freed.empty() ? made.end() : std::ranges::find(made, freed.back());
    if (place != made.end() && std::holds_alternative<FreeBuffer>(plan.steps[k]))
      when[static_cast<std::size_t>(place - made.begin())].last = k;
  }
  PartMemory out;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const bool inside = std::ranges::find(freed, made[i]) != freed.end();
    (inside ? out.inside : out.made).push_back(made[i]);
    if (inside) out.when.push_back(when[i]);
  }
  for (BufferId b : freed)
    if (std::ranges::find(made, b) == made.end()) out.freed.push_back(b);
  return out;
}

}  // namespace coil::runtime
