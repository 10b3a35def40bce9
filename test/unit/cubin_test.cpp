// What cubins say of their kernels. test/python/test_cuda_text.py reads those that NVRTC makes.
#include "codegen/cuda/cubin.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

#include "error_of.h"

namespace coil::codegen {
namespace {

void put(std::string& file, std::uint64_t value, std::size_t bytes) {
  for (std::size_t k = 0; k < bytes; ++k) file += static_cast<char>(value >> (8 * k) & 0xff);
}

/// A kernel `k` of 40 registers, 16 bytes of stack and 1,200 of shared memory, beside which the machine has its own.
std::string small_cubin() {
  using namespace std::string_literals;
  const std::string names = "\0.shstrtab\0.symtab\0.nv.info\0.text.k\0.nv.shared.k\0.nv.shared.reserved.0\0k\0"s;
  const auto name = [&](std::string_view text) {
    return names.find(std::string("\0", 1) + std::string(text) + std::string("\0", 1)) + 1;
  };
  std::string symbols, info;
  put(symbols, 0, 24);
  put(symbols, name("k"), 4), put(symbols, 0, 20);
  put(info, 0x2f04, 2), put(info, 8, 2), put(info, 1, 4), put(info, 40, 4);
  put(info, 0x1104, 2), put(info, 8, 2), put(info, 1, 4), put(info, 16, 4);
  const std::size_t at = 64;
  std::string headers;
  const auto section = [&](std::string_view text, std::size_t offset, std::size_t bytes, std::size_t link) {
    put(headers, text.empty() ? 0 : name(text), 4), put(headers, 0, 20), put(headers, offset, 8);
    put(headers, bytes, 8), put(headers, link, 4), put(headers, 0, 20);
  };
  section("", 0, 0, 0);
  section(".shstrtab", at, names.size(), 0);
  section(".symtab", at + names.size(), symbols.size(), 1);
  section(".nv.info", at + names.size() + symbols.size(), info.size(), 2);
  section(".text.k", at, 0, 0);
  section(".nv.shared.k", at, 1200 + 1024, 0);
  section(".nv.shared.reserved.0", at, 0, 0);
  std::string file =
      "\x7f"
      "ELF";
  file.resize(0x28);
  put(file, at + names.size() + symbols.size() + info.size(), 8);
  file.resize(0x3a);
  put(file, 64, 2), put(file, 7, 2), put(file, 1, 2);
  return file + names + symbols + info + headers;
}

std::span<const std::byte> bytes(const std::string& file) { return std::as_bytes(std::span(file)); }

TEST(Cubin, SaysWhatItsKernelsTake) {
  const std::string file = small_cubin();
  EXPECT_TRUE(is_cubin(bytes(file)));
  const KernelResources expected{.symbol = "k", .registers = 40, .shared_bytes = 1200, .stack_bytes = 16};
  EXPECT_EQ(cubin_resources(bytes(file)), std::vector{expected});
}

TEST(Cubin, OneThatIsTornIsRefused) {
  const std::string file = small_cubin();
  for (std::size_t size = 0; size < file.size(); ++size) {
    const std::string torn = file.substr(0, size);
    EXPECT_NE(error_of([&] { cubin_resources(bytes(torn)); }).find("the cubin"), std::string::npos) << size;
  }
}

TEST(Cubin, TextIsNone) { EXPECT_FALSE(is_cubin(bytes(".version 8.0"))); }

}  // namespace
}  // namespace coil::codegen
