// The composite operators of ops/composites, carried out on the graph.
#include "ops/composites/steps.h"

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

class GraphSteps : public ops::composites::Steps {
 public:
  explicit GraphSteps(Rewriter& r) : Steps(*r.module.env, *r.node->op, r.node->args), r_(r) {}

  Value call(std::string_view target, Values args, std::vector<std::pair<std::string, Value>> named) override {
    return r_.call(target, std::move(args), std::move(named));
  }
  Value item(const Value& results, std::int64_t index) override { return r_.item(results.as_node(), index); }
  const TensorMeta& meta(const Value& tensor) const override { return r_.meta(tensor); }
  bool is_tensor(const Value& v) const override {
    const auto* node = v.get_if<fx::Node*>();
    return node && (*node)->is_tensor();
  }
  const TensorMeta* recorded(std::size_t result) const override {
    const auto* results = r_.node->meta.value.get_if<Values>();
    return results && result < results->size() ? results->at(result).get_if<TensorMeta>() : nullptr;
  }
  bool runs_on_host() const override { return r_.target.device.is_host(); }
  Device device() const override { return r_.device(); }
  Expr integer(const Value& v) const override { return r_.integer(v); }
  void refuse(const std::string& why) const override { r_.refuse(why); }

 private:
  Rewriter& r_;
};

}  // namespace

void decompose_composites(DecompositionTable& t) {
  ops::composites::for_each([&](const ops::composites::Composite& c) {
    // The registry's own text of the target: it lives as long as the table.
    const std::string target = ops::parse_schema(c.schema).target;
    t[ops::find(target)->schema.target] = [carry_out = c.carry_out](Rewriter& r) {
      GraphSteps steps(r);
      return carry_out(steps);
    };
  });
}

}  // namespace coil::passes
