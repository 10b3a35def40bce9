// Alias analysis by construction: every tensor of the program is a *base* (what owns memory) seen through a chain of
// view steps. A write through a chain gives the base a new value, made by writing back step by step; whoever looks at
// the base or at a view of it afterwards gets the view applied again to that value, made at the first use. A graph
// without writes stays as it is.
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "fx/infer.h"
#include "ops/outside.h"
#include "ops/shapes/elementwise.h"
#include "ops/shapes/strides.h"
#include "passes/graph/aliasing.h"
#include "passes/graph/functional_twin.h"
#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using fx::Opcode;
using ops::Value;
using ops::Values;
using sym::TensorMeta;

/// Memory and what it holds at this point of the program.
struct Base {
  Node* root;       ///< the node that brought it: a placeholder, an attribute, or the call that allocated it
  int version = 0;  ///< counts writes
  const std::byte* storage = nullptr;  ///< of an attribute
};

/// A way of seeing a base.
struct View {
  Base* base;
  View* of = nullptr;  ///< null when it is the whole base
  ViewStep step;
  TensorMeta meta;  ///< as eager has it
  Node* node;       ///< its value at `version`
  int version;
  /// Whether `node` is a view of the base's value and not just equal to one; results that leave the graph must be.
  bool exact = true;
};

/// A tensor as Python has it: several nodes may be the same one (`y = x.add_(1)`), and `x.unsqueeze_(0)` makes it
/// another view.
struct Object {
  View* view;
};

/// A call of `unsqueeze_` or its kin.
struct Reshape {
  const Object* object;
  std::string target, where;
};

/// Views that one call made of one tensor.
struct ListOfViews {
  View* of;
  int version;
  bool exact;
};

class Functionalizer {
 public:
  explicit Functionalizer(fx::GraphModule& m) : m_(m) {}

  void run() {
    for (Node* n : m_.graph.nodes()) visit(n);
    check_shared_attributes();
    check_reshaped_inputs();
    record_mutations();
    for (auto it = erased_.rbegin(); it != erased_.rend(); ++it) m_.graph.erase(*it);
    m_.graph.eliminate_dead_code();
    update_metadata();
  }

 private:
  // --- what nodes are

  View* new_view(View view) { return &views_.emplace_back(std::move(view)); }
  Object* new_object(View* view) { return &objects_of_.emplace_back(Object{view}); }

  Object* new_base(Node* n) {
    Base* base = &bases_.emplace_back(Base{n});
    return new_object(new_view({.base = base, .meta = n->tensor(), .node = n, .version = 0}));
  }

  Object* object_of(const Node* n) {
    auto it = objects_.find(n);
    return it == objects_.end() ? nullptr : it->second;
  }

  /// Attributes that lie in the same memory in the same way are one base.
  Object* attribute(Node* n) {
    auto tensor = m_.attributes.find(n->target);
    const std::byte* storage = tensor == m_.attributes.end() ? nullptr : tensor->second.storage.data.get();
    for (Object* known : attributes_) {
      const Base& base = *known->view->base;
      if (base.root->target == n->target || (storage && base.storage == storage && known->view->meta == n->tensor()))
        return known;
    }
    Object* made = new_base(n);
    made->view->base->storage = storage;
    attributes_.push_back(made);
    return made;
  }

  /// `node` sees `of`'s present value.
  View* child(View* of, Node* node, ViewStep step, const TensorMeta& meta) {
    const bool exact = of->exact;
    int version = of->base->version;
    if (step.target == "aten.as_strided.default") {
      if (version > 0) version = -1;  // where the elements lie counts: made anew from the base
      // Counts from the beginning of the storage, whatever it is applied to.
      sym::Expr offset = step.args[3].is_none() ? of->meta.offset : fx::resolve(step.args[3]).as_int();
      of = memory_of(of, node);
      if (of->of) version = -1;  // what it is applied to may not lie there, once complex numbers are apart
      step.args[3] = offset - of->meta.offset;
    }
    return new_view({.base = of->base,
                     .of = of,
                     .step = std::move(step),
                     .meta = meta,
                     .node = node,
                     .version = version,
                     .exact = exact});
  }

  /// The whole base as elements of the type that `seen` has: strides and offsets of `seen` count there.
  View* memory_of(View* seen, Node* n) {
    View* root = seen;
    for (; root->of; root = root->of)
      if (changes_values(root->step, root->of->meta))
        throw Error(fmt::format("{} of %{}: goes by places in memory behind {}", n->target, root->node->name,
                                root->step.target),
                    n->target, n->where());
    const DType whole = root->meta.dtype, part = seen->meta.dtype;
    if (whole == part) return root;
    if (is_complex(part) || (is_complex(whole) && 2 * size_of(part) != size_of(whole)))
      throw Error(
          fmt::format("{}: goes by places in memory of {} seen as {}", n->target, torch_name(whole), torch_name(part)),
          n->target, n->where());
    Node* now = current(*root, n);
    Node* typed = is_complex(whole) ? make_call(m_, n, "aten.view_as_real.default", {now})
                                    : make_call(m_, n, "aten.view.dtype", {now, part});
    TensorMeta meta = typed->tensor();
    const auto bytes = [](DType t) { return sym::Expr(static_cast<std::int64_t>(size_of(t))); };
    meta.offset = sym::floor_div(root->meta.offset * bytes(whole), bytes(part));
    return new_view({.base = root->base,
                     .of = root,
                     .step = view_step(*typed),
                     .meta = std::move(meta),
                     .node = typed,
                     .version = root->version});
  }

  // --- values

  /// The node that has this view's value now.
  Node* current(View& v, Node* from, bool exact = false) {
    if (v.version == v.base->version && (v.exact || !exact)) return v.node;
    COIL_CHECK(v.of, "the base of %{} is older than itself", v.node->name);
    Node* viewed = current(*v.of, from, exact);
    if (v.step.target == "aten.as_strided.default" && !lies_as(*viewed, v.of->meta))
      throw Error(fmt::format("{} of %{}, which was written to and has gaps in memory", v.step.target, v.node->name),
                  from->target, from->where());
    v.node = apply_view(m_, from, v.step, viewed, v.meta);
    v.version = v.base->version;
    v.exact = exact || v.of->exact;
    return v.node;
  }

  /// Arguments of a node as they are now. Questions about sizes take any value that there was.
  void refresh(Node* n) {
    const bool sizes_only = n->target.starts_with("aten.sym_");
    const bool leaves = n->opcode == Opcode::Output;
    auto now = [&](Node*& a) {
      Object* o = object_of(a);
      if (o) a = sizes_only ? o->view->node : current(*o->view, n, leaves);
    };
    Values args = n->args;
    for (Value& v : args) ops::for_each_node(v, now);
    if (args != n->args) {
      n->set_args(std::move(args));
      changed_.insert(n);
    }
    for (auto& [name, v] : n->kwargs)
      ops::for_each_node(v, [&](Node* a) {
        if (Object* o = object_of(a); o && current(*o->view, n) != a)
          fail("%{}: the named argument {} was written to before", n->name, name);
      });
  }

  bool equal_strides(const TensorMeta& a, const TensorMeta& b) const {
    for (std::size_t i = 0; i < a.rank(); ++i)
      if (!m_.env->statically_known_equal(a.strides[i], b.strides[i])) return false;
    return true;
  }

  /// Whether the value lies in memory as the tensor does, but for where it begins.
  bool lies_as(const Node& value, const TensorMeta& wanted) const {
    return value.tensor().rank() == wanted.rank() && equal_strides(value.tensor(), wanted);
  }

  /// A new value in the dtype, sizes and strides that the tensor has.
  Node* fitted(Node* value, const TensorMeta& wanted, Node* n, const std::function<Node*()>& old) {
    for (std::size_t i = 0; i < std::max(wanted.rank(), value->tensor().rank()); ++i)
      if (wanted.rank() != value->tensor().rank() ||
          m_.env->statically_known_true(sym::ne(wanted.sizes[i], value->tensor().sizes[i])))
        throw Error(fmt::format("{} gives {}, which cannot be written to {}", n->target,
                                sym::to_string(value->tensor()), sym::to_string(wanted)),
                    n->target, n->where());
    if (value->tensor().dtype != wanted.dtype)
      value = make_call(m_, n, "aten._to_copy.default", {value}, {{"dtype", wanted.dtype}});
    if (equal_strides(value->tensor(), wanted)) return value;
    Node* relaid = make_call(m_, n, "aten.copy.default", {old(), value});
    if (equal_strides(relaid->tensor(), wanted)) return relaid;
    m_.graph.erase(relaid);  // the tensor is not dense: new values are
    return value;
  }

  /// Whether each element has a place of its own: a stride goes beyond all that the smaller ones span.
  bool has_own_places(const TensorMeta& t) const {
    std::vector<std::size_t> order(t.rank());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return ops::shapes::stride_less(*m_.env, t.strides[a], t.strides[b]);
    });
    sym::Expr span = 0;
    for (const std::size_t d : order) {
      if (m_.env->statically_known_equal(t.sizes[d], 1)) continue;
      if (!m_.env->statically_known_lt(span, t.strides[d])) return false;
      span = m_.env->simplify(span + (t.sizes[d] - 1) * t.strides[d]);
    }
    return true;
  }

  /// Whether the view, or what it is a view of, has several elements in one place. Strides that are not numbers are
  /// taken to be as eager wants them.
  bool sees_repeated(const View& view) const {
    const auto numbers = [](const sym::Exprs& list) {
      return std::ranges::all_of(list, [](const sym::Expr& e) { return e.constant().has_value(); });
    };
    for (const View* v = &view; v->of; v = v->of) {
      if (repeats_elements(*m_.env, v->step, v->of->meta, v->meta)) return true;
      const bool by_strides = v->step.target == "aten.as_strided.default";
      if (by_strides && numbers(v->meta.sizes) && numbers(v->meta.strides) && !has_own_places(v->meta)) return true;
    }
    return false;
  }

  /// Writes a view by its places in memory; `alike` is one number everywhere, which may go to a place several times.
  Node* write_by_places(View& view, View& memory, Node* value, Node* n, bool alike) {
    if (!alike && !has_own_places(view.meta))
      throw Error(fmt::format("{}: more than one element of the written-to tensor refers to a single memory location; "
                              "clone() it first",
                              n->target),
                  n->target, n->where());
    return make_call(
        m_, n, "aten.as_strided_scatter.default",
        {current(memory, n), value, view.meta.sizes, view.meta.strides, view.meta.offset - memory.meta.offset});
  }

  void write(View& view, Node* value, Node* n) {
    Base& base = *view.base;
    const bool alike = is_one_number(*value);
    if (view.of && value->tensor().dtype != view.meta.dtype)
      value = make_call(m_, n, "aten._to_copy.default", {value}, {{"dtype", view.meta.dtype}});
    Node* whole = value;
    View* root = &view;
    if (sees_repeated(view)) {
      root = memory_of(&view, n);
      whole = write_by_places(view, *root, value, n, alike);
    }
    for (; root->of; root = root->of) {
      View& of = *root->of;
      whole = write_back(m_, n, root->step, of.meta, [&] { return current(of, n); }, whole);
    }
    whole = fitted(whole, root->meta, n, [&] { return current(*root, n); });
    ++base.version;
    root->node = whole;
    root->version = base.version;
    if (root != &view && equal_strides(value->tensor(), view.meta)) {
      view.node = value;  // no need to look through the view at what was just written
      view.version = base.version;
      view.exact = false;
    }
  }

  // --- nodes

  void visit(Node* n) {
    fx::InsertBefore here(n);
    switch (n->opcode) {
      case Opcode::Placeholder:
        if (n->is_tensor()) objects_[n] = new_base(n);
        return;
      case Opcode::GetAttr:
        if (n->is_tensor()) objects_[n] = attribute(n);
        return;
      case Opcode::Output: refresh(n); return;
      case Opcode::CallFunction: break;
    }
    if (n->is_call("_operator.getitem")) return visit_item(n);
    if (gives_back_input(*n)) return visit_same(n);
    if (views_of_list(*n)) return visit_views_of_list(n);
    if (auto twin = functional_twin(*n)) {
      bool only_reshapes = n->op->schema.is_mutating() && twin->op && twin->op->schema.is_view();
      return only_reshapes ? visit_reshape(n, *twin) : visit_write(n, *twin);
    }
    if (is_view_of_input(*n, *m_.env)) return visit_view(n);
    refresh(n);
    if (n->is_tensor()) objects_[n] = new_base(n);
  }

  Object* viewed_by(const Node* n) {
    Object* object = object_of(n->args[0].as_node());
    COIL_CHECK(object, "%{} is no tensor", n->args[0].as_node()->name);
    return object;
  }

  void visit_same(Node* n) {
    Object* same = viewed_by(n);
    refresh(n);
    if (n->op->schema.is_mutating()) {  // `detach_` gives the very object
      objects_[n] = same;
      erased_.push_back(n);
    } else {
      objects_[n] = new_object(same->view);
    }
  }

  void visit_view(Node* n) {
    View* of = viewed_by(n)->view;
    refresh(n);
    if (!n->is_tensor()) {
      lists_[n] = {of, of->base->version, of->exact};
      return;
    }
    objects_[n] = new_object(child(of, n, view_step(*n), n->tensor()));
  }

  /// Each result is a view of one of the tensors in the list, which the schema does not say.
  void visit_views_of_list(Node* n) {
    const Values given = n->args[0].as_list();
    std::vector<View*> of;
    for (const Value& v : given) of.push_back(object_of(v.as_node())->view);
    refresh(n);
    if (n->is_tensor()) {  // of a list of one, that one
      objects_[n] = new_object(of.at(0));
      return;
    }
    const Values results = n->meta.value.as_list();
    for (Node* item : std::vector<Node*>(n->users())) {
      if (!item->is_call("_operator.getitem")) continue;
      const auto index = static_cast<std::size_t>(item->args.at(1).as_int().constant().value());
      const TensorMeta& meta = item->tensor();
      const bool same = meta == of.at(index)->meta;
      const ViewStep step{"aten.as_strided.default", {given[index], meta.sizes, meta.strides, meta.offset}, {}, {}};
      items_[{n, index}] = same ? new_object(of[index]) : new_object(child(of[index], item, step, meta));
    }
  }

  /// One of several results: of a view operator, of one that wrote to several tensors, or a fresh one.
  void visit_item(Node* n) {
    if (!n->is_tensor() || !n->args[0].is<Node*>()) return;
    Node* list = n->args[0].as_node();
    auto position = n->args.at(1).as_int().constant();
    if (!position || *position < 0)
      throw Error(fmt::format("%{} takes an item without a fixed position", n->name), n->target, n->where());
    std::size_t index = static_cast<std::size_t>(*position);
    auto [it, fresh] = items_.try_emplace({list, index}, nullptr);
    if (auto views = lists_.find(list); fresh && views != lists_.end()) {
      View* view = child(views->second.of, n, view_step(*list, index), n->tensor());
      view->version = views->second.version;
      view->exact = views->second.exact;
      it->second = new_object(view);
    } else if (fresh) {
      it->second = new_base(n);
    } else if (written_lists_.contains(list)) {
      erased_.push_back(n);
    }
    objects_[n] = it->second;
  }

  /// `unsqueeze_` and its kin write nothing; the object sees its memory otherwise from now on.
  void visit_reshape(Node* n, const FunctionalTwin& twin) {
    Object* object = viewed_by(n);
    refresh(n);
    Node* made = make_call(m_, n, twin.op->schema.target, {}, twin_arguments(twin, *n));
    object->view = child(object->view, made, view_step(*made), n->tensor());
    objects_[n] = object;
    reshaped_.push_back({object, n->target, n->where()});
    erased_.push_back(n);
  }

  /// Checks the result type of `add.out` and its kind, whose functional forms know nothing of where results go.
  static void check_cast(const Node& n, const Node& value, const sym::TensorMeta& out) {
    if (!value.is_tensor() || ops::shapes::can_cast(value.tensor().dtype, out.dtype)) return;
    throw Error(fmt::format("{}: result type {} can't be cast to the desired output type {}", n.target,
                            torch_name(value.tensor().dtype), torch_name(out.dtype)),
                n.target, n.where());
  }

  void visit_write(Node* n, const FunctionalTwin& twin) {
    std::vector<Object*> written;
    for (std::size_t p : twin.written)
      ops::for_each_node(n->args[p], [&](Node* a) {
        Object* object = object_of(a);
        if (!object)
          throw Error(fmt::format("{} writes to %{}, which is no tensor", n->target, a->name), n->target, n->where());
        if (n->op && n->op->schema.parameters[p].keyword_only) check_unrepeated(*n, object->view->meta);
        written.push_back(object);
      });
    if (!twin.op) check_separate(*n, written);
    refresh(n);
    Node* made =
        twin.op ? make_call(m_, n, twin.op->schema.target, {}, twin_arguments(twin, *n)) : host_call(n, twin, written);
    const bool several = made->meta.value.is<Values>();
    auto result = [&](std::size_t i) -> Node* {
      return several ? make_call(m_, n, "_operator.getitem", {made, static_cast<std::int64_t>(i)}) : made;
    };
    // New values come last among the twin's results; a written list of tensors (`_foreach_add_`) is all that its
    // operator has.
    std::size_t next = twin.op ? twin.op->schema.returns.size() - twin.written.size() : twin.own_results;
    for (Object* object : written) {
      Node* value = result(next++);
      check_cast(*n, *value, object->view->meta);
      check_places(*n, *value, *object->view);
      write(*object->view, value, n);
    }
    erased_.push_back(n);

    if (n->meta.value.is_none() && n->op->schema.returns.size() == 1 && twin.own_results == 0)
      n->meta.value = written.at(0)->view->meta;  // `add.out`, of which only the schema is known
    if (n->is_tensor()) {
      objects_[n] = twin.own_results ? new_base(result(0)) : written.at(0);
    } else if (n->meta.value.is<Values>()) {
      written_lists_.insert(n);
      for (std::size_t i = 0; i < n->meta.value.as_list().size(); ++i)
        items_[{n, i}] = i < twin.own_results ? new_base(result(i)) : written.at(i - twin.own_results);
    }
  }

  /// An operator from outside with copies to write to: its own results, then what it wrote to each.
  Node* host_call(Node* n, const FunctionalTwin& twin, const std::vector<Object*>& written) {
    Node* made = m_.graph.call(std::string(ops::kFunctional) + n->target, n->args, n->name);
    fx::Graph::inherit(made, n);
    Values results;
    if (const Value& own = n->meta.value; twin.own_results > 0)
      results = own.is<Values>() ? own.as_list() : Values{own};
    results.resize(twin.own_results);
    const ops::Operator& copy = *ops::find("aten.clone.default");
    for (Object* object : written) {
      const Values args = {object->view->meta, ops::None{}};
      results.push_back(copy.shape({copy, args, *m_.env}));
    }
    made->meta.value = std::move(results);
    return made;
  }

  /// What a copy, a cast or an expansion was made of.
  static const Node* copied(const Node* n) {
    constexpr std::string_view kSame[] = {"aten.expand.default", "aten._to_copy.default", "aten.clone.default"};
    while (true) {
      const bool copy = n->is_call("aten.copy.default");
      if (!copy && std::ranges::find(kSame, n->target) == std::end(kSame)) return n;
      const Value& from = n->args.at(copy ? 1 : 0);
      if (!from.is<Node*>()) return n;
      n = from.as_node();
    }
  }

  /// Whether a value is the same number everywhere, as `x.fill_(1)` writes it.
  static bool is_one_number(const Node& value) {
    constexpr std::string_view kFilled[] = {"aten.fill.Scalar",       "aten.fill.Tensor",       "aten.zero.default",
                                            "aten.full.default",      "aten.zeros.default",     "aten.ones.default",
                                            "aten.full_like.default", "aten.zeros_like.default"};
    const Node* made = copied(&value);
    if (std::ranges::find(kFilled, made->target) != std::end(kFilled)) return true;
    return made->is_tensor() &&
           std::ranges::all_of(made->tensor().sizes, [](const sym::Expr& s) { return s.is_constant(1); });
  }

  /// What is written has a place for each of its elements, in eager too: there an operator in place refuses, or leaves
  /// whatever it wrote last.
  static void check_unrepeated(const Node& n, const sym::TensorMeta& out) {
    if (std::ranges::any_of(out.sizes, [](const sym::Expr& size) { return size.is_constant(0); })) return;
    for (std::size_t d = 0; d < out.rank(); ++d)
      if (const auto size = out.sizes[d].constant(); size && *size > 1 && out.strides[d].is_constant(0))
        throw Error(fmt::format("{}: more than one element of the written-to tensor refers to a single memory "
                                "location; clone() it first",
                                n.target),
                    n.target, n.where());
  }

  /// One number may be written everywhere; through a view it leaves the rest of what it is a view of.
  static void check_places(const Node& n, const Node& value, const View& written) {
    if (!is_one_number(value)) check_unrepeated(n, written.meta);
    if (written.of) check_unrepeated(n, written.base->root->tensor());
  }

  /// Copies would part what eager has in one memory.
  void check_separate(const Node& n, const std::vector<Object*>& written) {
    std::map<const Base*, int> uses;
    for (const Value& a : n.args)
      ops::for_each_node(a, [&](Node* given) {
        if (Object* object = object_of(given)) ++uses[object->view->base];
      });
    for (Object* object : written)
      if (const Base* base = object->view->base; uses[base] > 1)
        throw Error(fmt::format("{} writes to memory of %{} that it is given twice; give it a copy of one (clone())",
                                n.target, base->root->name),
                    n.target, n.where());
  }

  // --- the end

  /// New values begin their own storage, so that views of them have other offsets than the program had; sizes and
  /// dtypes stay, or `propagate` will say so.
  void update_metadata() {
    for (Node* n = m_.graph.first(); n; n = n->next()) {
      const bool inferred = (n->op && n->op->shape) || n->target.starts_with("_operator.");
      if (!inferred || !changed_.contains(n)) continue;
      Value found = fx::infer(*n, *m_.env);
      if (found == n->meta.value) continue;
      n->meta.value = std::move(found);
      changed_.insert(n->users().begin(), n->users().end());
    }
  }

  void check_shared_attributes() const {
    for (const Object* a : attributes_)
      for (const Object* b : attributes_)
        if (a != b && a->view->base->version && a->view->base->storage &&
            a->view->base->storage == b->view->base->storage)
          fail("attribute {} is written to, and {} lies in the same memory in another way", a->view->base->root->target,
               b->view->base->root->target);
  }

  /// The caller's own tensor, or the module's, would have to change its sizes.
  void check_reshaped_inputs() const {
    for (const Reshape& r : reshaped_)
      for (const auto& [root, object] : objects_) {
        const bool input = root->opcode == Opcode::Placeholder;
        if (object != r.object || (!input && root->opcode != Opcode::GetAttr) || object->view->meta == root->tensor())
          continue;
        throw Error(fmt::format("{} gives the {} {} other sizes or strides, which its owner would see; use the "
                                "operator that gives a view",
                                r.target, input ? "input" : "attribute", input ? root->name : root->target),
                    r.target, r.where);
      }
  }

  void record_mutations() {
    Node* output = m_.graph.output();
    Values results = output->args;
    for (Base& base : bases_) {
      bool input = base.root->opcode == Opcode::Placeholder;
      if (base.version == 0 || (!input && base.root->opcode != Opcode::GetAttr)) continue;
      auto kind = input ? fx::Mutation::Target::Input : fx::Mutation::Target::Attribute;
      const std::string& target = input ? base.root->name : base.root->target;
      Node* value = whole(base)->node;
      auto known = std::find_if(m_.mutations.begin(), m_.mutations.end(),
                                [&](const fx::Mutation& w) { return w.kind == kind && w.target == target; });
      if (known != m_.mutations.end()) {
        results[known->output] = value;
        continue;
      }
      m_.mutations.push_back({kind, target, results.size()});
      results.push_back(value);
    }
    output->set_args(std::move(results));
  }

  View* whole(const Base& base) {
    View* v = objects_.at(base.root)->view;
    while (v->of) v = v->of;
    return v;
  }

  fx::GraphModule& m_;
  std::deque<Base> bases_;
  std::deque<View> views_;
  std::deque<Object> objects_of_;
  std::unordered_map<const Node*, Object*> objects_;
  std::map<std::pair<const Node*, std::size_t>, Object*> items_;
  std::unordered_map<const Node*, ListOfViews> lists_;
  std::unordered_set<const Node*> written_lists_;
  std::vector<Object*> attributes_;
  std::vector<Reshape> reshaped_;
  std::vector<Node*> erased_;
  std::unordered_set<const Node*> changed_;  ///< take other arguments than they did
};

bool has_writes(const fx::Graph& g) {
  for (Node* n = g.first(); n; n = n->next())
    if ((n->op && n->op->schema.is_mutating()) || (!gives_back_input(*n) && functional_twin(*n))) return true;
  return false;
}

}  // namespace

void functionalize(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) {
    functionalize(*sub);
    if (!sub->mutations.empty())
      fail("the subgraph {} writes to {}, which is not its own", name, sub->mutations[0].target);
  }
  if (has_writes(m.graph)) Functionalizer(m).run();
}

}  // namespace coil::passes
