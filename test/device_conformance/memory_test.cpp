// Memory, copies and their order: what a device's queue must do, whatever its programs.
#include <dlfcn.h>

#include <set>
#include <thread>

#include "error_of.h"
#include "place.h"

namespace coil::conformance {
namespace {

using runtime::QueueScope;

class DeviceMemory : public DeviceTest {};

constexpr DType kTypes[] = {DType::F32, DType::F64, DType::I64, DType::I32, DType::I16, DType::U8, DType::Bool};

TEST_P(DeviceMemory, BlocksOfAnySizeAreAlignedAndApart) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  std::vector<Storage> blocks;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{1000}, std::size_t{1} << 20})
    blocks.push_back(queue->allocate(bytes));
  for (const Storage& b : blocks) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data.get()) % 64, 0u);
    EXPECT_EQ(b.device, place().device);
    for (const Storage& other : blocks) {
      if (&b == &other) continue;
      EXPECT_TRUE(other.data.get() + other.bytes <= b.data.get() || b.data.get() + b.bytes <= other.data.get());
    }
  }
  EXPECT_NO_THROW(queue->allocate(0));
}

TEST_P(DeviceMemory, WhatWasGivenBackIsThereAgain) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  constexpr std::size_t kBlocks = 2000;  // 16 GB in all
  std::set<const std::byte*> places;
  for (std::size_t k = 0; k < kBlocks; ++k) places.insert(queue->allocate(std::size_t{8} << 20).data.get());
  EXPECT_LE(places.size(), kBlocks / 4) << "each block has a place of its own";
}

TEST_P(DeviceMemory, MoreThanThereIsIsAnErrorAndNothingElse) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  EXPECT_TRUE(has(error_of([&] { queue->allocate(std::size_t{1} << 60); }), "memory"));
  const Tensor given = random_on_host(DType::F32, {100}, 1), there = empty_on(*queue, DType::F32, {100});
  queue->copy(there, given);
  EXPECT_TRUE(same(to_host(*queue, there), given));
}

TEST_P(DeviceMemory, EveryTypeIsCopiedBothWays) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  for (const DType type : kTypes) {
    const Tensor given = random_on_host(type, {3, 7}, 2), there = empty_on(*queue, type, {3, 7});
    queue->copy(there, given);
    EXPECT_TRUE(same(to_host(*queue, there), given)) << torch_name(type);
  }
}

TEST_P(DeviceMemory, ViewsAreCopiedElementByElement) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  const Tensor given = random_on_host(DType::F32, {6, 8}, 3), there = empty_on(*queue, DType::F32, {6, 8});
  queue->copy(there, given);
  struct View {
    const char* what;
    Sizes sizes, strides;
    std::int64_t offset;
  };
  const View views[] = {{"transposed", {8, 6}, {1, 8}, 0}, {"every second", {6, 4}, {8, 2}, 1},
                        {"a part", {2, 3}, {8, 1}, 19},    {"one row for all", {4, 8}, {0, 1}, 8},
                        {"one element", {}, {}, 47},       {"nothing", {0, 8}, {8, 1}, 0}};
  for (const View& v : views) {
    const Tensor from{there.storage, DType::F32, v.sizes, v.strides, v.offset},
        expected{given.storage, DType::F32, v.sizes, v.strides, v.offset};
    EXPECT_TRUE(same(to_host(*queue, from), expected)) << v.what;
    if (from.numel() == 0) continue;
    const Tensor dense = empty_on(*queue, DType::F32, v.sizes);
    queue->copy(dense, from);
    EXPECT_TRUE(same(to_host(*queue, dense), expected)) << v.what << ", on the device";
  }
  const Tensor columns = empty_on(*queue, DType::F32, {6, 8}, {1, 6}, 48);
  queue->copy(columns, given);
  EXPECT_TRUE(same(to_host(*queue, columns), given)) << "into a transposed one";
}

TEST_P(DeviceMemory, WorkIsDoneInOrder) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  const Tensor a = empty_on(*queue, DType::I64, {1000}), b = empty_on(*queue, DType::I64, {1000});
  std::vector<Tensor> given;
  for (unsigned k = 0; k < 20; ++k) given.push_back(random_on_host(DType::I64, {1000}, k));
  for (const Tensor& t : given) {
    queue->copy(a, t);
    queue->copy(b, a);
  }
  EXPECT_TRUE(same(to_host(*queue, b), given.back()));
}

/// A library that brings the device NAME may bring `NAME_stream_create` and `NAME_stream_destroy` as well.
TEST_P(DeviceMemory, WorkKeepsItsOrderFromStreamToStream) {
  const std::string kind = place().device.type.name();
  const auto create = reinterpret_cast<void* (*)()>(::dlsym(RTLD_DEFAULT, (kind + "_stream_create").c_str()));
  const auto destroy = reinterpret_cast<void (*)(void*)>(::dlsym(RTLD_DEFAULT, (kind + "_stream_destroy").c_str()));
  if (!create || !destroy) GTEST_SKIP() << "nobody makes streams of " << kind;
  void* const streams[] = {create(), create()};
  {
    const auto queue = make_queue();
    const QueueScope scope(*queue);
    const Tensor a = empty_on(*queue, DType::I64, {100000}), b = empty_on(*queue, DType::I64, {100000});
    Tensor last;
    for (unsigned k = 0; k < 30; ++k) {
      queue->set_stream(k % 3 == 2 ? nullptr : streams[k % 3]);
      last = random_on_host(DType::I64, {100000}, k);
      queue->copy(k % 2 ? a : b, last);
      queue->copy(k % 2 ? b : a, k % 2 ? a : b);
    }
    EXPECT_TRUE(same(to_host(*queue, a), last));
    EXPECT_TRUE(same(to_host(*queue, b), last));
  }
  for (void* stream : streams) destroy(stream);
}

TEST_P(DeviceMemory, MemoryThatGoesBackEarlyIsNotOverwritten) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  const Tensor kept = empty_on(*queue, DType::I64, {50000});
  const Tensor first = random_on_host(DType::I64, {50000}, 4), second = random_on_host(DType::I64, {50000}, 5);
  {
    const Tensor passing = empty_on(*queue, DType::I64, {50000});
    queue->copy(passing, first);
    queue->copy(kept, passing);
  }
  const Tensor next = empty_on(*queue, DType::I64, {50000});
  queue->copy(next, second);
  EXPECT_TRUE(same(to_host(*queue, kept), first));
}

TEST_P(DeviceMemory, WhatOneQueueWroteAnotherReadsAfterAWait) {
  const auto device = place().open();
  const auto writer = device->make_queue(), reader = device->make_queue();
  const Tensor given = random_on_host(DType::F32, {513}, 6);
  Tensor there;
  {
    const QueueScope scope(*writer);
    there = empty_on(*writer, DType::F32, {513});
    writer->copy(there, given);
    writer->wait();
  }
  const QueueScope scope(*reader);
  EXPECT_TRUE(same(to_host(*reader, there), given));
}

TEST_P(DeviceMemory, TwoThreadsHaveAQueueEach) {
  const auto device = place().open();
  auto work = [&](unsigned seed, bool* good) {
    const auto queue = device->make_queue();
    const QueueScope scope(*queue);
    for (unsigned k = 0; k < 50; ++k) {
      const Tensor given = random_on_host(DType::F32, {777}, 100 * seed + k), a = empty_on(*queue, DType::F32, {777}),
                   b = empty_on(*queue, DType::F32, {777});
      queue->copy(a, given);
      queue->copy(b, a);
      *good = *good && same(to_host(*queue, b), given);
    }
  };
  bool good[2] = {true, true};
  std::thread one([&] { work(1, &good[0]); }), two([&] { work(2, &good[1]); });
  one.join();
  two.join();
  EXPECT_TRUE(good[0] && good[1]);
}

TEST_P(DeviceMemory, SharedWordsAreZeroAndTheHostsToo) {
  const auto queue = make_queue();
  const QueueScope scope(*queue);
  const auto words = queue->shared_words(5);
  ASSERT_EQ(words.size(), 5u);
  for (std::int64_t& w : words) {
    EXPECT_EQ(w, 0);
    w = 7;
  }
}

TEST_P(DeviceMemory, WhatItCannotLoadOrDoIsRefusedByName) {
  const auto device = place().open();
  const std::vector<std::vector<std::byte>> garbage{std::vector<std::byte>(64, std::byte{42})};
  EXPECT_NE(error_of([&] {
              const auto loaded = device->load("", garbage);
              if (!loaded->find("nothing")) fail("no such kernel");
            }),
            "no error");
  const auto queue = device->make_queue();
  const QueueScope scope(*queue);
  EXPECT_TRUE(has(error_of([&] { queue->make_op("juggle", {}); }), "juggle"));
}

INSTANTIATE_TEST_SUITE_P(On, DeviceMemory, testing::ValuesIn(places()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace coil::conformance
