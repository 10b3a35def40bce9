// Metal's machine (machine.h) over Apple's framework: a library of its own, `libcoil_metal.dylib`, which a build on
// macOS makes (cmake/metal.cmake). Nobody has compiled or run it yet: Coil is made on machines without Metal.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <cstdint>
#include <string>

namespace {

thread_local std::string last_error;

int complain(NSString* what) {
  last_error = what.UTF8String;
  return 1;
}

/// A command buffer with its encoder, from the first kernel to `finish`.
struct Queue {
  id<MTLCommandQueue> queue;
  id<MTLCommandBuffer> commands = nil;
  id<MTLComputeCommandEncoder> encoder = nil;
};

/// A compiled source, and its kernels that are ready.
struct Library {
  id<MTLLibrary> library;
  NSMutableArray<id<MTLComputePipelineState>>* pipelines;
};

Queue& queue_of(void* queue) { return *static_cast<Queue*>(queue); }

}  // namespace

extern "C" {

const char* coil_metal_error() { return last_error.c_str(); }

void* coil_metal_open(int index) {
  @autoreleasepool {
    NSArray<id<MTLDevice>>* const all = MTLCopyAllDevices();
    if (index < 0 || static_cast<NSUInteger>(index) >= all.count) {
      complain([NSString stringWithFormat:@"this machine has %lu GPUs", static_cast<unsigned long>(all.count)]);
      return nullptr;
    }
    return (__bridge_retained void*)all[static_cast<NSUInteger>(index)];
  }
}
void coil_metal_close(void* gpu) { CFRelease(gpu); }

void* coil_metal_allocate(void* gpu, std::size_t bytes, void** contents) {
  id<MTLBuffer> const buffer = [(__bridge id<MTLDevice>)gpu newBufferWithLength:bytes
                                                                        options:MTLResourceStorageModeShared];
  if (!buffer) return nullptr;
  *contents = buffer.contents;
  return (__bridge_retained void*)buffer;
}
void coil_metal_release(void* buffer) { CFRelease(buffer); }

void* coil_metal_compile(void* gpu, const char* source, std::size_t bytes) {
  @autoreleasepool {
    NSString* const text = [[NSString alloc] initWithBytes:source length:bytes encoding:NSUTF8StringEncoding];
    MTLCompileOptions* const options = [MTLCompileOptions new];
    options.languageVersion = MTLLanguageVersion3_0;
    options.fastMathEnabled = NO;
    NSError* error = nil;
    id<MTLLibrary> const library = [(__bridge id<MTLDevice>)gpu newLibraryWithSource:text options:options error:&error];
    if (!library) {
      complain(error.localizedDescription);
      return nullptr;
    }
    return new Library{library, [NSMutableArray new]};
  }
}
void coil_metal_free_library(void* library) { delete static_cast<Library*>(library); }

void* coil_metal_find(void* library, const char* name) {
  @autoreleasepool {
    const Library& l = *static_cast<Library*>(library);
    id<MTLFunction> const function = [l.library newFunctionWithName:@(name)];
    if (!function) {
      complain(@"the source has no kernel of that name");
      return nullptr;
    }
    NSError* error = nil;
    id<MTLComputePipelineState> const pipeline = [l.library.device newComputePipelineStateWithFunction:function
                                                                                                 error:&error];
    if (!pipeline) {
      complain(error.localizedDescription);
      return nullptr;
    }
    // Kernels exchange values between 32 lanes, which is what Apple's own GPUs have.
    if (pipeline.threadExecutionWidth != 32) {
      complain(@"the GPU's simd groups are not of 32 threads");
      return nullptr;
    }
    [l.pipelines addObject:pipeline];
    return (__bridge void*)pipeline;
  }
}

void* coil_metal_make_queue(void* gpu) {
  id<MTLCommandQueue> const queue = [(__bridge id<MTLDevice>)gpu newCommandQueue];
  if (!queue) {
    complain(@"a command queue cannot be made");
    return nullptr;
  }
  return new Queue{queue};
}
void coil_metal_free_queue(void* queue) { delete &queue_of(queue); }

void coil_metal_use(void* queue, void* kernel) {
  Queue& q = queue_of(queue);
  if (!q.encoder) {
    q.commands = [q.queue commandBuffer];
    // One after the other: a kernel sees what the one before it wrote.
    q.encoder = [q.commands computeCommandEncoderWithDispatchType:MTLDispatchTypeSerial];
  }
  [q.encoder setComputePipelineState:(__bridge id<MTLComputePipelineState>)kernel];
}
void coil_metal_set_buffer(void* queue, std::uint32_t index, void* buffer, std::size_t offset) {
  [queue_of(queue).encoder setBuffer:(__bridge id<MTLBuffer>)buffer offset:offset atIndex:index];
}
void coil_metal_set_bytes(void* queue, std::uint32_t index, const void* data, std::size_t bytes) {
  [queue_of(queue).encoder setBytes:data length:bytes atIndex:index];
}
int coil_metal_dispatch(void* queue, const std::uint32_t* grid, std::uint32_t threads) {
  [queue_of(queue).encoder dispatchThreadgroups:MTLSizeMake(grid[0], grid[1], grid[2])
                          threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)];
  return 0;
}
int coil_metal_finish(void* queue) {
  @autoreleasepool {
    Queue& q = queue_of(queue);
    if (!q.encoder) return 0;
    [q.encoder endEncoding];
    [q.commands commit];
    [q.commands waitUntilCompleted];
    NSError* const error = q.commands.error;
    q.encoder = nil;
    q.commands = nil;
    return error ? complain(error.localizedDescription) : 0;
  }
}

}  // extern "C"
