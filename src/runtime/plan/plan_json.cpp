#include "runtime/plan/plan_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/plan/signature_json.h"
#include "support/error.h"
#include "support/float_functions.h"

namespace coil::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kShapeOps[] = {"const",    "size",    "stride", "value", "add", "sub",   "mul",
                                     "floordiv", "ceildiv", "mod",    "min",   "max", "pow",   "where",
                                     "eq",       "ne",      "lt",     "le",    "and", "or",    "not",
                                     "bitand",   "bitor",   "bitxor", "shl",   "shr", "float", "runtime"};
static_assert(std::size(kShapeOps) == static_cast<std::size_t>(ShapeOp::RunTime) + 1);
constexpr const char* kControls[] = {"if", "else", "end if", "loop", "break unless", "end loop"};
static_assert(std::size(kControls) == static_cast<std::size_t>(Control::Kind::EndLoop) + 1);
constexpr const char* kBufferKinds[] = {"input", "constant", "temporary", "output", "comm"};
constexpr const char* kOutputKinds[] = {"tensor", "int", "bool", "float", "none"};

template <class Enum, std::size_t N>
Enum enum_from(const char* const (&names)[N], const std::string& name) {
  for (std::size_t i = 0; i < N; ++i)
    if (name == names[i]) return static_cast<Enum>(i);
  fail("unknown name '{}'", name);
}

// JSON has no infinities; they are written as text.
Json number_to_json(double v) {
  return std::isfinite(v) ? Json(v) : Json(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

double number_from(const Json& j) {
  if (!j.is_string()) return j.get<double>();
  const auto text = j.get<std::string>();
  if (text == "nan") return std::nan("");
  if (text == "inf" || text == "-inf") return text == "inf" ? HUGE_VAL : -HUGE_VAL;
  fail("'{}' is no number", text);
}

template <class T = std::int64_t>
T integer(const Json& j) {
  if (!j.is_number_integer()) fail("an integer was expected instead of {}", j.dump());
  const auto v = j.get<std::int64_t>();
  if (static_cast<std::int64_t>(static_cast<T>(v)) != v) fail("{} is out of range", v);
  return static_cast<T>(v);
}

template <class T = std::int64_t>
std::vector<T> integers(const Json& j) {
  if (!j.is_array()) fail("a list was expected instead of {}", j.dump());
  std::vector<T> values;
  for (const Json& v : j) values.push_back(integer<T>(v));
  return values;
}

DType dtype_from(const Json& j) {
  const auto name = j.get<std::string>();
  const auto dtype = dtype_from_short_name(name);
  if (!dtype) fail("unknown dtype '{}'", name);
  return *dtype;
}

Json to_json(const View& v) {
  return {{"buffer", v.buffer},
          {"dtype", short_name(v.dtype)},
          {"sizes", v.sizes},
          {"strides", v.strides},
          {"offset", v.offset}};
}

View view_from(const Json& j) {
  return {integer<BufferId>(j.at("buffer")), dtype_from(j.at("dtype")), integers<Slot>(j.at("sizes")),
          integers<Slot>(j.at("strides")), integer<Slot>(j.at("offset"))};
}

// An attribute is an object of one member whose name is its type.
Json to_json(const Attribute& attribute) {
  struct {
    Json operator()(std::int64_t v) const { return {{"int", v}}; }
    Json operator()(double v) const { return {{"float", number_to_json(v)}}; }
    Json operator()(const std::string& v) const { return {{"string", v}}; }
    Json operator()(const std::vector<std::int64_t>& v) const { return {{"ints", v}}; }
    Json operator()(const std::vector<double>& v) const {
      Json list = Json::array();
      for (double x : v) list.push_back(number_to_json(x));
      return {{"floats", std::move(list)}};
    }
    Json operator()(const std::vector<std::string>& v) const { return {{"strings", v}}; }
  } visitor;
  return std::visit(visitor, attribute);
}

Attribute attribute_from(const Json& j) {
  if (!j.is_object() || j.size() != 1) fail("an attribute was expected instead of {}", j.dump());
  const std::string type = j.begin().key();
  const Json& value = j.begin().value();
  if (type == "int") return integer(value);
  if (type == "float") return number_from(value);
  if (type == "string") return value.get<std::string>();
  if (type == "ints") return integers(value);
  if (type == "strings") return value.get<std::vector<std::string>>();
  if (type != "floats") fail("unknown attribute type '{}'", type);
  std::vector<double> values;
  for (const Json& v : value) values.push_back(number_from(v));
  return values;
}

constexpr const char* kHostNames[] = {"dtype", "device", "memory_format", "layout"};

// Like an attribute: an object of one member whose name is its type; null for None.
Json to_json(const HostArgument& argument) {
  struct {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool v) const { return {{"bool", v}}; }
    Json operator()(double v) const { return {{"float", number_to_json(v)}}; }
    Json operator()(const std::string& v) const { return {{"string", v}}; }
    Json operator()(const HostInteger& v) const { return {{"int", v.slot}}; }
    Json operator()(const HostOperand& v) const { return {{"operand", v.index}}; }
    Json operator()(const HostName& v) const { return {{kHostNames[static_cast<std::size_t>(v.kind)], v.text}}; }
    Json operator()(const std::vector<HostArgument>& v) const {
      Json list = Json::array();
      for (const HostArgument& item : v) list.push_back(to_json(item));
      return {{"list", std::move(list)}};
    }
  } visitor;
  return std::visit(visitor, static_cast<const HostArgument::variant&>(argument));
}

HostArgument host_argument_from(const Json& j) {
  if (j.is_null()) return std::monostate{};
  if (!j.is_object() || j.size() != 1) fail("an argument was expected instead of {}", j.dump());
  const std::string type = j.begin().key();
  const Json& value = j.begin().value();
  if (type == "bool") return value.get<bool>();
  if (type == "float") return number_from(value);
  if (type == "string") return value.get<std::string>();
  if (type == "int") return HostInteger{integer<Slot>(value)};
  if (type == "operand") return HostOperand{integer<std::uint32_t>(value)};
  if (type != "list") return HostName{enum_from<HostName::Kind>(kHostNames, type), value.get<std::string>()};
  std::vector<HostArgument> items;
  for (const Json& item : value) items.push_back(host_argument_from(item));
  return items;
}

Json to_json(const HostCall& c) {
  Json arguments = Json::array(), in = Json::array(), out = Json::array();
  for (const NamedHostArgument& a : c.arguments)
    arguments.push_back({{"keyword", a.keyword}, {"value", to_json(a.value)}});
  for (const View& v : c.inputs) in.push_back(to_json(v));
  for (const auto& v : c.outputs) out.push_back(v ? to_json(*v) : Json());
  Json j = {{"host", c.op}, {"schema", c.schema}, {"arguments", arguments},
            {"inputs", in}, {"outputs", out},     {"list", c.is_list}};
  if (!c.writes.empty()) j["writes"] = c.writes;
  return j;
}

HostCall host_call_from(const Json& j) {
  HostCall call;
  call.op = j.at("host").get<std::string>();
  call.schema = j.value("schema", "");
  call.is_list = j.at("list").get<bool>();
  if (j.contains("writes")) call.writes = integers<std::uint32_t>(j.at("writes"));
  for (const Json& a : j.at("arguments"))
    call.arguments.push_back({a.at("keyword").get<std::string>(), host_argument_from(a.at("value"))});
  for (const Json& v : j.at("inputs")) call.inputs.push_back(view_from(v));
  for (const Json& v : j.at("outputs"))
    call.outputs.push_back(v.is_null() ? std::nullopt : std::optional(view_from(v)));
  return call;
}

Json to_json(const Step& step) {
  struct {
    Json operator()(const KernelCall& c) const {
      Json out = {{"kernel", c.kernel},
                  {"buffers", c.buffers},
                  {"scalars", c.scalars},
                  {"extent", c.extent},
                  {"grain", c.grain}};
      if (!c.grid.empty()) out.update({{"grid", c.grid}, {"block", c.block}, {"shared_bytes", c.shared_bytes}});
      if (!c.written.empty()) out["written"] = c.written;
      for (const KernelArgument& a : c.arguments) out["arguments"].push_back({a.buffer, a.value, a.bytes});
      for (const TensorMap& m : c.tensor_maps) {
        Json map = {
            {"element", m.element}, {"swizzle", m.swizzle}, {"box", m.box}, {"sizes", m.sizes}, {"strides", m.strides}};
        if (c.arguments.empty()) map.update({{"buffer", m.buffer}, {"offset", m.offset}});
        out["tensor_maps"].push_back(std::move(map));
      }
      return out;
    }
    Json operator()(const ExternCall& c) const {
      Json attributes = Json::object(), in = Json::array(), out = Json::array();
      for (const auto& [name, value] : c.attributes) attributes[name] = to_json(value);
      for (const View& v : c.inputs) in.push_back(to_json(v));
      for (const View& v : c.outputs) out.push_back(to_json(v));
      Json call = {{"library", c.op}, {"attributes", attributes}, {"inputs", in}, {"outputs", out}};
      if (!c.description.empty()) call["description"] = c.description;
      return call;
    }
    Json operator()(const HostCall& c) const { return to_json(c); }
    Json operator()(const AssertCall& c) const { return {{"assert", c.condition}, {"message", c.message}}; }
    Json operator()(const AllocateBuffer& a) const { return {{"allocate", a.buffer}}; }
    Json operator()(const FreeBuffer& f) const { return {{"free", f.buffer}}; }
    Json operator()(const ReadSymbol& r) const { return {{"read", r.source}, {"symbol", r.symbol}}; }
    Json operator()(const SetNumber& s) const { return {{"set", s.symbol}, {"value", s.value}}; }
    Json operator()(const Control& c) const {
      return {{"control", kControls[static_cast<std::size_t>(c.kind)]},
              {"value", c.value},
              {"counter", c.counter},
              {"target", c.target}};
    }
  } visitor;
  return std::visit(visitor, step);
}

KernelCall kernel_call_from(const Json& j) {
  KernelCall call{integer<std::uint32_t>(j.at("kernel")),
                  integers<BufferId>(j.at("buffers")),
                  integers<Slot>(j.at("scalars")),
                  integer<Slot>(j.at("extent")),
                  integer<Slot>(j.at("grain")),
                  {},
                  0,
                  0};
  if (j.contains("grid")) {
    call.grid = integers<Slot>(j.at("grid"));
    call.block = integer<std::uint32_t>(j.at("block"));
    call.shared_bytes = integer<Slot>(j.at("shared_bytes"));
  }
  if (j.contains("written")) call.written = integers<std::uint32_t>(j.at("written"));
  if (j.contains("arguments"))
    for (const Json& a : j.at("arguments"))
      call.arguments.push_back(
          {integer<std::int64_t>(a.at(0)), integer<Slot>(a.at(1)), integer<std::uint32_t>(a.at(2))});
  if (j.contains("tensor_maps"))
    for (const Json& m : j.at("tensor_maps")) {
      call.tensor_maps.push_back({integer<std::uint32_t>(m.at("element")), integer<std::uint32_t>(m.at("swizzle")),
                                  integers<std::uint32_t>(m.at("box")), integers<Slot>(m.at("sizes")),
                                  integers<Slot>(m.at("strides"))});
      if (!call.arguments.empty()) continue;
      call.tensor_maps.back().buffer = integer<std::uint32_t>(m.at("buffer"));
      call.tensor_maps.back().offset = integer<Slot>(m.at("offset"));
    }
  return call;
}

Step step_from(const Json& j) {
  if (j.contains("kernel")) return kernel_call_from(j);
  if (j.contains("assert")) return AssertCall{integer<Slot>(j.at("assert")), j.at("message").get<std::string>()};
  if (j.contains("host")) return host_call_from(j);
  if (j.contains("allocate")) return AllocateBuffer{integer<BufferId>(j.at("allocate"))};
  if (j.contains("free")) return FreeBuffer{integer<BufferId>(j.at("free"))};
  if (j.contains("read")) return ReadSymbol{integer<BufferId>(j.at("read")), integer<Slot>(j.at("symbol"))};
  if (j.contains("set")) return SetNumber{integer<Slot>(j.at("set")), integer<Slot>(j.at("value"))};
  if (j.contains("control"))
    return Control{enum_from<Control::Kind>(kControls, j.at("control").get<std::string>()),
                   integer<Slot>(j.at("value")), integer<Slot>(j.at("counter")),
                   integer<std::uint32_t>(j.at("target"))};
  ExternCall call{j.at("library").get<std::string>(), {}, {}, {}, {}};
  if (j.contains("description")) call.description = j.at("description").get<std::string>();
  for (const auto& [name, value] : j.at("attributes").items()) call.attributes[name] = attribute_from(value);
  for (const Json& v : j.at("inputs")) call.inputs.push_back(view_from(v));
  for (const Json& v : j.at("outputs")) call.outputs.push_back(view_from(v));
  return call;
}

Json to_json(const Input& in) {
  return {{"name", in.name},       {"dtype", short_name(in.dtype)}, {"sizes", in.sizes}, {"strides", in.strides},
          {"mutated", in.mutated}, {"unused", in.unused},           {"taken", in.taken}};
}

Input input_from(const Json& j) {
  return {j.at("name").get<std::string>(), dtype_from(j.at("dtype")),   integers<Slot>(j.at("sizes")),
          integers<Slot>(j.at("strides")), j.at("mutated").get<bool>(), j.at("unused").get<bool>(),
          j.value("taken", false)};
}

Json to_json(const Constant& c) {
  return {{"name", c.name},   {"dtype", short_name(c.dtype)}, {"sizes", c.sizes}, {"strides", c.strides},
          {"bytes", c.bytes}, {"offset", c.file_offset},      {"state", c.state}, {"seed", c.seed}};
}

Constant constant_from(const Json& j) {
  return {j.at("name").get<std::string>(),
          dtype_from(j.at("dtype")),
          integers(j.at("sizes")),
          integers(j.at("strides")),
          integer<std::uint64_t>(j.at("bytes")),
          integer<std::uint64_t>(j.at("offset")),
          j.at("state").get<bool>(),
          j.at("seed").get<bool>()};
}

Json to_json(const Buffer& b) {
  Json j = {{"kind", kBufferKinds[static_cast<std::size_t>(b.kind)]},
            {"index", b.index},
            {"name", b.name},
            {"bytes", b.bytes},
            {"first", b.first},
            {"last", b.last},
            {"shares", b.shares},
            {"arena", b.arena_offset}};
  if (b.place != 0) j["place"] = b.place;
  return j;
}

Buffer buffer_from(const Json& j) {
  return {enum_from<BufferKind>(kBufferKinds, j.at("kind").get<std::string>()),
          integer<std::uint32_t>(j.at("index")),
          j.at("name").get<std::string>(),
          integer<Slot>(j.at("bytes")),
          integer<std::uint32_t>(j.at("first")),
          integer<std::uint32_t>(j.at("last")),
          integer(j.at("shares")),
          integer(j.at("arena")),
          j.contains("place") ? integer<std::uint32_t>(j.at("place")) : 0};
}

Json to_json(const Output& out) {
  Json j = {{"name", out.name}, {"kind", kOutputKinds[static_cast<std::size_t>(out.kind)]}};
  if (out.kind == Output::Kind::Tensor) j["view"] = to_json(out.view);
  if (out.kind == Output::Kind::Int || out.kind == Output::Kind::Bool) j["value"] = out.value;
  if (out.kind == Output::Kind::Float) j["number"] = number_to_json(out.number);
  return j;
}

Output output_from(const Json& j) {
  Output out{j.at("name").get<std::string>(), enum_from<Output::Kind>(kOutputKinds, j.at("kind").get<std::string>())};
  if (out.kind == Output::Kind::Tensor) out.view = view_from(j.at("view"));
  if (out.kind == Output::Kind::Int || out.kind == Output::Kind::Bool) out.value = integer<Slot>(j.at("value"));
  if (out.kind == Output::Kind::Float) out.number = number_from(j.at("number"));
  return out;
}

Json to_json(const ShapeInstruction& in) {
  return Json::array({kShapeOps[static_cast<std::size_t>(in.op)], in.a, in.b, in.c});
}
ShapeInstruction instruction_from(const Json& j) {
  return {enum_from<ShapeOp>(kShapeOps, j.at(0).get<std::string>()), integer(j.at(1)), integer(j.at(2)),
          integer(j.at(3))};
}
Json to_json(const CommPool& p) { return {{"group", p.group}, {"bytes", p.bytes}, {"plan", p.plan}}; }
CommPool comm_pool_from(const Json& j) {
  return {j.at("group").get<std::string>(), integer<std::uint64_t>(j.at("bytes")), j.at("plan").get<std::string>()};
}
Json to_json(const Part& p) {
  return {{"first", p.first}, {"end", p.end}, {"inputs", p.inputs}, {"outputs", p.outputs}, {"sizes", p.sizes}};
}
Part part_from(const Json& j) {
  return {integer<std::uint32_t>(j.at("first")), integer<std::uint32_t>(j.at("end")),
          integers<BufferId>(j.at("inputs")), integers<BufferId>(j.at("outputs")), integers<Slot>(j.at("sizes"))};
}
Json to_json(const Check& c) { return {{"condition", c.condition}, {"message", c.message}}; }
Check check_from(const Json& j) { return {integer<Slot>(j.at("condition")), j.at("message").get<std::string>()}; }
Json to_json(const PlanKernel& k) {
  Json j = {{"symbol", k.symbol}, {"description", k.description}, {"failure", k.failure}};
  if (k.place != 0) j["place"] = k.place;
  return j;
}
PlanKernel kernel_from(const Json& j) {
  return {j.at("symbol").get<std::string>(), j.at("description").get<std::string>(), j.at("failure").get<std::string>(),
          j.contains("place") ? integer<std::uint32_t>(j.at("place")) : 0};
}
Json to_json(const OtherDevice& d) {
  return {{"device", to_string(d.device)}, {"isa", d.isa}, {"arena_bytes", d.static_arena_bytes}};
}
OtherDevice other_device_from(const Json& j) {
  return {parse_device(j.at("device").get<std::string>()), j.at("isa").get<std::string>(),
          integer<std::uint64_t>(j.at("arena_bytes"))};
}

template <class T>
Json list_to_json(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& v : values) list.push_back(to_json(v));
  return list;
}

template <class T>
void read_list(const Json& j, std::vector<T>& to, T (*read)(const Json&)) {
  if (!j.is_array()) fail("a list was expected");
  to.reserve(j.size());
  for (const Json& v : j) to.push_back(read(v));
}

constexpr std::string_view kMembers[] = {"format",
                                         "version",
                                         "model",
                                         "device",
                                         "isa",
                                         "arena_bytes",
                                         "inputs",
                                         "outputs",
                                         "shape_program",
                                         "checks",
                                         "constants",
                                         "buffers",
                                         "kernels",
                                         "steps",
                                         "check_lifetimes",
                                         "signature",
                                         "stops_on_failure",
                                         "launches_early",
                                         "comm_pools",
                                         "memory_limit",
                                         "others",
                                         "parts"};

/// Brackets inside brackets, which are read by functions that call themselves.
void check_nesting(std::string_view text) {
  constexpr int kDeepest = 300;  // a signature may nest some 140
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else
        quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) fail("it nests deeper than {}", kDeepest);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

Plan read_plan(const Json& j) {
  if (j.at("format").get<std::string>() != "coil-plan") fail("it is not a plan");
  if (const auto version = integer(j.at("version")); version < Plan::kOldestVersion || version > Plan::kVersion)
    fail("it has version {}, but this runtime reads versions {} to {}; compile the model again", version,
         Plan::kOldestVersion, Plan::kVersion);
  for (const auto& [name, value] : j.items())
    if (std::find(std::begin(kMembers), std::end(kMembers), name) == std::end(kMembers))
      fail("it has a member '{}', which this runtime does not know", name);
  Plan plan;
  plan.model_name = j.at("model").get<std::string>();
  plan.device = parse_device(j.at("device").get<std::string>());
  plan.isa = j.at("isa").get<std::string>();
  plan.static_arena_bytes = integer<std::uint64_t>(j.at("arena_bytes"));
  plan.check_lifetimes = j.contains("check_lifetimes") && j.at("check_lifetimes").get<bool>();
  if (j.contains("memory_limit")) plan.memory_limit = integer<std::uint64_t>(j.at("memory_limit"));
  plan.dependent_launches = j.contains("launches_early") && j.at("launches_early").get<bool>();
  plan.stops_on_failure = j.contains("stops_on_failure") && j.at("stops_on_failure").get<bool>();
  if (j.contains("signature")) plan.signature = signature_from_json(j.at("signature"));
  read_list(j.at("shape_program"), plan.shape_program, instruction_from);
  read_list(j.at("checks"), plan.checks, check_from);
  read_list(j.at("inputs"), plan.inputs, input_from);
  read_list(j.at("constants"), plan.constants, constant_from);
  read_list(j.at("buffers"), plan.buffers, buffer_from);
  read_list(j.at("kernels"), plan.kernels, kernel_from);
  read_list(j.at("steps"), plan.steps, step_from);
  read_list(j.at("outputs"), plan.outputs, output_from);
  if (j.contains("others")) read_list(j.at("others"), plan.others, other_device_from);
  if (j.contains("parts")) read_list(j.at("parts"), plan.parts, part_from);
  if (j.contains("comm_pools")) read_list(j.at("comm_pools"), plan.comm_pools, comm_pool_from);
  return plan;
}

/// Version 4 has operators that write to their arguments, and tells what kernels write to; version 5 signatures;
/// version 6 sizes that are made of floats; version 7 those that are rounded to a number of digits; version 8 those
/// that a branch tells, or floats read from data, kernels that stop when the run has failed, and such that are launched
/// early; version 9 kernels that are not Coil's own; version 10 communication buffers; version 11 a limit on memory;
/// version 12 several devices and parts; version 13 kernels that are not Coil's own and have a
/// status, or descriptors of tensors; version 14 kernels of Coil's own that take descriptors.
int version_of(const Plan& plan) {
  const auto tells = [](const Step& s) {
    const auto* kernel = std::get_if<KernelCall>(&s);
    return kernel && (has_status(*kernel) || !kernel->tensor_maps.empty());
  };
  const auto maps = [](const Step& s) {
    const auto* kernel = std::get_if<KernelCall>(&s);
    return kernel && kernel->arguments.empty() && !kernel->tensor_maps.empty();
  };
  if (std::any_of(plan.steps.begin(), plan.steps.end(), maps)) return 14;
  if (std::any_of(plan.steps.begin(), plan.steps.end(), tells)) return 13;
  if (!plan.others.empty() || !plan.parts.empty()) return 12;
  if (plan.memory_limit) return 11;
  if (!plan.comm_pools.empty()) return 10;
  const auto has_own_arguments = [](const Step& s) {
    const auto* kernel = std::get_if<KernelCall>(&s);
    return kernel && !kernel->arguments.empty();
  };
  if (std::any_of(plan.steps.begin(), plan.steps.end(), has_own_arguments)) return 9;
  if (plan.stops_on_failure || plan.dependent_launches) return 8;
  if (std::any_of(plan.steps.begin(), plan.steps.end(),
                  [](const Step& s) { return std::holds_alternative<SetNumber>(s); }))
    return 8;
  int of_floats = 0;
  for (const ShapeInstruction& in : plan.shape_program)
    if (in.op == ShapeOp::Float)
      of_floats = std::max(of_floats, in.c == static_cast<std::int64_t>(FloatFunction::OfBits)         ? 8
                                      : in.c == static_cast<std::int64_t>(FloatFunction::RoundDecimal) ? 7
                                                                                                       : 6);
  if (of_floats) return of_floats;
  auto is_new = [](const Step& step) {
    const auto* host = std::get_if<HostCall>(&step);
    const auto* kernel = std::get_if<KernelCall>(&step);
    return (host && !host->writes.empty()) || (kernel && !kernel->written.empty());
  };
  if (plan.signature) return 5;
  return plan.check_lifetimes || std::any_of(plan.steps.begin(), plan.steps.end(), is_new) ? 4 : 3;
}

/// A program for a device that a library brings, which was not loaded, is whole.
void check_device(const Json& j) {
  if (const auto others = j.find("others"); others != j.end() && others->is_array())
    for (const Json& other : *others)
      if (other.is_object()) check_device(other);
  const auto device = j.find("device");
  if (device == j.end() || !device->is_string()) return;
  const std::string name = device->get<std::string>(), kind = name.substr(0, name.find(':'));
  if (DeviceType::is_name(kind) && !DeviceType::find(kind))
    fail("it is for the device '{}', which nothing here brings; load the library that does (--load LIBRARY)", name);
}

}  // namespace

std::string plan_to_json(const Plan& plan) {
  Json j = {{"format", "coil-plan"},
            {"version", version_of(plan)},
            {"model", plan.model_name},
            {"device", to_string(plan.device)},
            {"isa", plan.isa},
            {"arena_bytes", plan.static_arena_bytes},
            {"inputs", list_to_json(plan.inputs)},
            {"outputs", list_to_json(plan.outputs)},
            {"shape_program", list_to_json(plan.shape_program)},
            {"checks", list_to_json(plan.checks)},
            {"constants", list_to_json(plan.constants)},
            {"buffers", list_to_json(plan.buffers)},
            {"kernels", list_to_json(plan.kernels)},
            {"steps", list_to_json(plan.steps)}};
  if (plan.check_lifetimes) j["check_lifetimes"] = true;
  if (plan.memory_limit) j["memory_limit"] = plan.memory_limit;
  if (plan.dependent_launches) j["launches_early"] = true;
  if (plan.stops_on_failure) j["stops_on_failure"] = true;
  if (!plan.parts.empty()) j["parts"] = list_to_json(plan.parts);
  if (!plan.comm_pools.empty()) j["comm_pools"] = list_to_json(plan.comm_pools);
  if (!plan.others.empty()) j["others"] = list_to_json(plan.others);
  if (plan.signature) j["signature"] = signature_to_json(*plan.signature);
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Plan plan_from_json(std::string_view text) {
  Json j;
  try {
    check_nesting(text);
    j = Json::parse(text);
  } catch (const nlohmann::json::exception& e) {
    fail("the plan is damaged: {}", e.what());
  } catch (const Error& e) {
    fail("the plan is damaged: {}", e.what());
  }
  if (j.is_object()) check_device(j);
  try {
    return read_plan(j);
  } catch (const nlohmann::json::exception& e) {
    fail("the plan is damaged: {}", e.what());
  } catch (const Error& e) {
    fail("the plan is damaged: {}", e.what());
  }
}

}  // namespace coil::runtime
