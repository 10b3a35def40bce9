#include <gtest/gtest.h>

#include <cstring>

#include "coil/runtime.h"
#include "runtime/device/library.h"
#include "temporary_folder.h"

namespace {

coil_tensor vector_of(float* data, std::int64_t size, std::int64_t stride = 1) {
  coil_tensor t{};
  t.data = data;
  t.dtype = COIL_F32;
  t.rank = 1;
  t.sizes[0] = size;
  t.strides[0] = stride;
  return t;
}

TEST(CInterface, MemoryLivesAsLongAsItHasOwners) {
  auto* p = static_cast<char*>(coil_alloc(100));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 64, 0u);
  coil_tensor view{};
  view.data = p + 4;
  view.owner = coil_retain(p);
  coil_free(p);
  std::memset(p, 1, 100);
  coil_tensor_release(&view);
  EXPECT_EQ(view.data, nullptr);
}

TEST(CInterface, FilesAreReadBackByName) {
  const coil::TemporaryFolder folder;
  const std::string path = (folder.path() / "t.safetensors").string();
  float values[] = {1, 2, 3, 4};
  const coil_tensor tensors[] = {vector_of(values, 2, 2), vector_of(values, 4)};
  const char* names[] = {"b", "a"};
  ASSERT_EQ(coil_file_write(path.c_str(), names, tensors, 2), 0) << coil_last_error();
  coil_file* file = coil_file_open(path.c_str());
  ASSERT_NE(file, nullptr) << coil_last_error();
  ASSERT_EQ(coil_file_count(file), 2u);
  EXPECT_STREQ(coil_file_name(file, 0), "a");
  coil_tensor b;
  ASSERT_EQ(coil_file_find(file, "b", &b), 0);
  EXPECT_EQ(b.sizes[0], 2);
  EXPECT_EQ(static_cast<float*>(b.data)[1], 3);
  EXPECT_NE(coil_file_find(file, "c", &b), 0);
  EXPECT_STREQ(coil_last_error(), "the file has no tensor 'c'");
  coil_file_close(file);
  EXPECT_EQ(coil_file_open((folder.path() / "none").c_str()), nullptr);
}

TEST(CInterface, KernelsRunOverTheirWholeExtent) {
  std::vector<std::int64_t> hits(1000, 0);
  void* buffers[] = {hits.data()};
  const std::int64_t scalars[] = {3};
  coil_parallel_for(
      [](void* const* b, const std::int64_t* s, std::int64_t begin, std::int64_t end) {
        for (; begin < end; ++begin) static_cast<std::int64_t*>(b[0])[begin] += s[0];
      },
      buffers, scalars, 1000, 10);
  EXPECT_EQ(std::count(hits.begin(), hits.end(), 3), 1000);
}

/// y = x * by
class Scale final : public coil::runtime::LibraryOp {
 public:
  explicit Scale(double by) : by_(by) {}
  void prepare(std::span<const coil::runtime::BoundView> in, std::span<const coil::runtime::BoundView>) override {
    size_ = in[0].sizes[0];
  }
  void run(std::span<const void* const> in, std::span<void* const> out, void*) override {
    for (std::int64_t i = 0; i < size_; ++i)
      static_cast<float*>(out[0])[i] = static_cast<float>(static_cast<const float*>(in[0])[i] * by_);
  }

 private:
  double by_;
  std::int64_t size_ = 0;
};

TEST(CInterface, LibraryCallsTakeAttributesAndFollowSizes) {
  coil::runtime::define_library_op("test.scale", [](const coil::runtime::Attributes& a) {
    return std::make_unique<Scale>(std::get<double>(a.at("by")));
  });
  coil_op* op = coil_op_create("test.scale");
  ASSERT_NE(op, nullptr);
  coil_op_set_float(op, "by", 2);
  for (std::int64_t size : {2, 3}) {
    float x[] = {1, 2, 3}, y[] = {0, 0, 0};
    const coil_tensor in = vector_of(x, size), out = vector_of(y, size);
    ASSERT_EQ(coil_op_run(op, &in, 1, &out, 1), 0) << coil_last_error();
    EXPECT_EQ(y[1], 4);
    EXPECT_EQ(y[2], size == 3 ? 6 : 0);
  }
  coil_op_destroy(op);
  EXPECT_EQ(coil_op_create("test.none"), nullptr);
  EXPECT_STREQ(coil_last_error(), "this runtime has no library operation 'test.none'");
}

}  // namespace
