#include "tensor/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "support/out_of_memory.h"

namespace coil {

Sizes contiguous_strides(std::span<const std::int64_t> sizes) {
  Sizes strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<std::int64_t>(sizes[d], 1);
  }
  return strides;
}

std::int64_t numel(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (std::int64_t s : sizes) {
    if (s < 0) fail("negative size {}", s);
    if (__builtin_mul_overflow(n, s, &n)) fail("the number of elements overflows 64 bits");
  }
  return n;
}

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Whole pages, huge ones where the kernel has them, which it gives as zeros when they are first touched: by the
/// threads that fill them, and some hundred times more rarely.
std::shared_ptr<std::byte> allocate_pages(std::size_t bytes) {
  void* whole = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) return nullptr;
  auto* first = static_cast<std::byte*>(whole);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % kHugePage;
  if (before) ::munmap(first, before);
  ::munmap(first + before + bytes, kHugePage - before);
  ::madvise(first + before, bytes, MADV_HUGEPAGE);
  return {first + before, [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

std::shared_ptr<std::byte> allocate_zeros(std::size_t bytes, std::size_t alignment) {
  std::shared_ptr<std::byte> p(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes)),
                               [](std::byte* q) { std::free(q); });
  if (p) std::memset(p.get(), 0, bytes);
  return p;
}

}  // namespace

Storage Storage::allocate(std::size_t bytes, bool filled_elsewhere) {
  constexpr std::size_t kAlignment = 64, kPage = 4096;
  const std::size_t unit = bytes >= (filled_elsewhere ? kHugePage / 4 : 2 * kHugePage) ? kPage : kAlignment;
  const std::size_t rounded = std::max(unit, (bytes + unit - 1) / unit * unit);
  if (rounded < bytes || rounded + kHugePage < rounded) throw std::bad_alloc();
  auto p = unit == kPage ? allocate_pages(rounded) : allocate_zeros(rounded, kAlignment);
  if (!p) fail_out_of_memory("out of memory: cannot allocate {} bytes", bytes);
  return {std::move(p), bytes};
}

Tensor Tensor::empty(DType dtype, Sizes sizes) {
  Tensor t;
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(coil::numel(sizes), static_cast<std::int64_t>(size_of(dtype)), &bytes))
    fail("tensor too large");
  t.storage = Storage::allocate(static_cast<std::size_t>(bytes));
  t.dtype = dtype;
  t.strides = contiguous_strides(sizes);
  t.sizes = std::move(sizes);
  return t;
}

bool Tensor::is_contiguous() const {
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

namespace {

void copy_strided(std::byte* to, const std::byte* from, std::span<const std::int64_t> sizes,
                  std::span<const std::int64_t> strides, std::size_t item) {
  if (sizes.empty()) {
    std::memcpy(to, from, item);
    return;
  }
  const std::int64_t step = coil::numel(sizes.subspan(1)) * static_cast<std::int64_t>(item);
  for (std::int64_t i = 0; i < sizes[0]; ++i)
    copy_strided(to + i * step, from + i * strides[0] * static_cast<std::int64_t>(item), sizes.subspan(1),
                 strides.subspan(1), item);
}

}  // namespace

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  Tensor out = empty(dtype, sizes);
  if (numel() > 0) copy_strided(out.bytes(), bytes(), sizes, strides, size_of(dtype));
  return out;
}

void Tensor::check_bounds() const {
  if (numel() == 0) return;
  std::int64_t low = offset, high = offset;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::int64_t span = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &span) ||
        __builtin_add_overflow(span > 0 ? high : low, span, span > 0 ? &high : &low))
      fail("strides overflow");
  }
  const auto items = static_cast<std::int64_t>(storage.bytes / size_of(dtype));
  if (low < 0 || high >= items)
    fail("a tensor of {} elements reads element {} of its storage", items, low < 0 ? low : high);
}

}  // namespace coil
