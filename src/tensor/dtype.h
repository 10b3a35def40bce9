// Element types: one table that printers, parsers, readers and tests loop over.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "support/extension_api.h"

namespace coil {

// X(enumerator, short name, torch name, bytes, export-schema number, safetensors name, C++ type in generated code)
// The export-schema numbers are those of torch/_export/serde/schema.py `ScalarType`.
#define COIL_DTYPES(X)                                         \
  X(U8, "u8", "uint8", 1, 1, "U8", "uint8_t")                  \
  X(I8, "i8", "int8", 1, 2, "I8", "int8_t")                    \
  X(I16, "i16", "int16", 2, 3, "I16", "int16_t")               \
  X(I32, "i32", "int32", 4, 4, "I32", "int32_t")               \
  X(I64, "i64", "int64", 8, 5, "I64", "int64_t")               \
  X(F16, "f16", "float16", 2, 6, "F16", "_Float16")            \
  X(F32, "f32", "float32", 4, 7, "F32", "float")               \
  X(F64, "f64", "float64", 8, 8, "F64", "double")              \
  X(C32, "c32", "complex32", 4, 9, "", "")                     \
  X(C64, "c64", "complex64", 8, 10, "C64", "")                 \
  X(C128, "c128", "complex128", 16, 11, "", "")                \
  X(Bool, "b8", "bool", 1, 12, "BOOL", "bool")                 \
  X(BF16, "bf16", "bfloat16", 2, 13, "BF16", "bf16")           \
  X(U16, "u16", "uint16", 2, 28, "U16", "uint16_t")            \
  X(U32, "u32", "uint32", 4, 34, "U32", "uint32_t")            \
  X(U64, "u64", "uint64", 8, 35, "U64", "uint64_t")            \
  X(F8E4M3, "f8e4m3fn", "float8_e4m3fn", 1, 29, "F8_E4M3", "") \
  X(F8E5M2, "f8e5m2", "float8_e5m2", 1, 30, "F8_E5M2", "")

enum class DType : std::uint8_t {
#define X(e, ...) e,
  COIL_DTYPES(X)
#undef X
};

/// Bytes of one element.
COIL_EXTENSION_API std::size_t size_of(DType);
/// `f32`, `bf16`, `b8`, …: the text form of the IR.
COIL_EXTENSION_API std::string_view short_name(DType);
/// `float32`, `bool`, …: torch's name without `torch.`.
COIL_EXTENSION_API std::string_view torch_name(DType);
std::string_view safetensors_name(DType);
/// The scalar type in generated C++; empty where kernels have none.
COIL_EXTENSION_API std::string_view cpp_name(DType);

std::optional<DType> dtype_from_short_name(std::string_view);
std::optional<DType> dtype_from_torch_name(std::string_view);
std::optional<DType> dtype_from_safetensors_name(std::string_view);
std::optional<DType> dtype_from_export_number(int);

COIL_EXTENSION_API bool is_floating(DType);  ///< f16, bf16, f32, f64, float8
bool is_complex(DType);
bool is_fractional(DType);                   ///< floating or complex
COIL_EXTENSION_API bool is_integral(DType);  ///< signed and unsigned integers, not bool
COIL_EXTENSION_API bool is_signed(DType);
/// f32 for the floating types that are narrower; else the type itself. Kernels compute in it.
COIL_EXTENSION_API DType compute_dtype(DType);
/// The type of one part of a complex number; a real type itself.
DType real_type(DType);
/// The type of complex numbers with parts of this type: complex32 for f16, complex128 for f64, else complex64.
DType complex_type(DType);
/// `torch.promote_types`: the smallest type both convert to without loss of category (torch/c10/core/ScalarType.cpp).
DType promote_types(DType, DType);

}  // namespace coil
