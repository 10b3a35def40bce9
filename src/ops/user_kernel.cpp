#include "ops/user_kernel.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/error.h"

namespace coil::ops {
namespace {

using Json = nlohmann::json;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  fail("'{}' is no hexadecimal digit", c);
}

std::vector<std::byte> bytes_of(const std::string& hex) {
  if (hex.size() % 2) fail("a byte is two hexadecimal digits");
  std::vector<std::byte> out(hex.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  return out;
}

UserKernel::Parameter with_map(UserKernel::Parameter p, const Json& j) {
  p.map = UserKernel::TensorMap{j.at("element").get<std::uint32_t>(), j.at("swizzle").get<std::uint32_t>(),
                                j.at("box").get<std::vector<std::uint32_t>>()};
  const std::size_t rank = p.map->box.size();
  if (p.kind != UserKernel::Kind::Tensor || rank < 1 || rank > 5)
    fail("a descriptor is of a tensor of 1 to 5 dimensions");
  return p;
}

UserKernel::Parameter parameter(const Json& j) {
  UserKernel::Parameter p{.name = j.at("name").get<std::string>()};
  const auto kind = j.at("kind").get<std::string>();
  if (kind == "tensor")
    p.kind = UserKernel::Kind::Tensor;
  else if (kind == "number")
    p.kind = UserKernel::Kind::Number;
  else if (kind == "size")
    p.kind = UserKernel::Kind::Size;
  else if (kind == "stride")
    p.kind = UserKernel::Kind::Stride;
  else if (kind == "workspace")
    p.kind = UserKernel::Kind::Workspace;
  else if (kind == "constant")
    p.kind = UserKernel::Kind::Constant;
  else
    fail("'{}' is no kind of parameter", kind);
  p.bytes = j.value("bytes", 8U);
  p.aligned = j.value("aligned", false);
  p.bits = j.value("bits", std::int64_t{0});
  p.dimension = j.value("dimension", 0U);
  if (j.contains("map")) return with_map(std::move(p), j.at("map"));
  if (p.bytes != 1 && p.bytes != 2 && p.bytes != 4 && p.bytes != 8) fail("a parameter has 1, 2, 4 or 8 bytes");
  const bool is_pointer = p.kind == UserKernel::Kind::Tensor || p.kind == UserKernel::Kind::Workspace;
  if (is_pointer && p.bytes != 8) fail("a pointer has 8 bytes");
  return p;
}

bool is_symbol(const std::string& s) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) && std::all_of(s.begin(), s.end(), part);
}

/// It is the last of the pointers.
void check_workspace(const UserKernel& k) {
  const auto at = std::ranges::find(k.parameters, UserKernel::Kind::Workspace, &UserKernel::Parameter::kind);
  if (at == k.parameters.end()) return;
  const auto takes = [](const UserKernel::Parameter& p) {
    return p.kind != UserKernel::Kind::Number && p.kind != UserKernel::Kind::Constant;
  };
  if (std::any_of(at + 1, k.parameters.end(), takes)) fail("a workspace stands behind all tensors");
  if (k.workspace_bytes < 1 || k.workspace_bytes > std::int64_t{1} << 32) fail("a workspace of no size");
}

UserKernel read(const Json& j) {
  UserKernel k;
  k.symbol = j.at("symbol").get<std::string>();
  k.name = j.at("name").get<std::string>();
  k.where = j.value("where", "");
  k.arch = j.value("arch", "");
  k.binary = bytes_of(j.value("binary", ""));
  k.ptx = j.value("ptx", "");
  k.block = j.value("block", 0U);
  k.shared_bytes = j.value("shared_bytes", 0U);
  k.workspace_bytes = j.value("workspace_bytes", std::int64_t{0});
  if (j.contains("program")) k.program = j.at("program").dump();
  for (const Json& p : j.at("parameters")) k.parameters.push_back(parameter(p));
  check_workspace(k);
  if (!is_symbol(k.symbol)) fail("'{}' is no symbol", k.symbol);
  if (!k.binary.empty() && (k.block < 1 || k.block > 1024)) fail("a block has 1 to 1024 threads");
  return k;
}

}  // namespace

std::size_t UserKernel::count(Kind kind) const {
  return static_cast<std::size_t>(std::ranges::count(parameters, kind, &Parameter::kind));
}

const UserKernel::Parameter& UserKernel::tensor(std::size_t k) const {
  for (const Parameter& p : parameters)
    if (p.kind == Kind::Tensor && k-- == 0) return p;
  fail("the kernel {} takes fewer tensors", symbol);
}

std::shared_ptr<const UserKernel> parse_user_kernel(std::string_view text) {
  try {
    return std::make_shared<const UserKernel>(read(Json::parse(text)));
  } catch (const Json::exception& e) {
    fail("the definition of a user's kernel cannot be read: {}", e.what());
  } catch (const Error& e) {
    fail("the definition of a user's kernel cannot be read: {}", e.what());
  }
}

}  // namespace coil::ops
