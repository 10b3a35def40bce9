#include "codegen/cuda/cubin.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "support/error.h"
#include "support/file.h"
#include "support/subprocess.h"
#include "support/temporary_folder.h"

namespace coil::codegen {
namespace {

constexpr std::string_view kMagic =
    "\x7f"
    "ELF";
constexpr std::int64_t kReservedBytes = 1024;  // of shared memory, for the machine itself

struct Section {
  std::string_view name;
  std::size_t offset = 0, bytes = 0;
  std::uint32_t link = 0;  ///< of symbols: the section of their names
};

/// An ELF file of 64 bits, in the byte order of x86.
class Elf {
 public:
  explicit Elf(std::span<const std::byte> file) : file_(file) {
    constexpr std::size_t kSections = 0x28, kSectionBytes = 0x3a, kSectionCount = 0x3c, kNames = 0x3e;
    const auto at = read<std::uint64_t>(kSections);
    const std::size_t size = read<std::uint16_t>(kSectionBytes), count = read<std::uint16_t>(kSectionCount),
                      names = read<std::uint16_t>(kNames);
    if (at > file.size() || size * count > file.size() - at) fail("the cubin is torn");
    std::vector<std::uint32_t> name_offsets;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t header = at + k * size;
      name_offsets.push_back(read<std::uint32_t>(header));
      sections_.push_back({.offset = read<std::uint64_t>(header + 0x18),
                           .bytes = read<std::uint64_t>(header + 0x20),
                           .link = read<std::uint32_t>(header + 0x28)});
    }
    for (std::size_t k = 0; k < count; ++k) sections_[k].name = text(section(names), name_offsets[k]);
  }

  template <class T>
  T read(std::size_t offset) const {
    if (offset > file_.size() || sizeof(T) > file_.size() - offset) fail("the cubin is torn");
    T value;
    std::memcpy(&value, file_.data() + offset, sizeof(T));
    return value;
  }
  const std::vector<Section>& sections() const { return sections_; }
  const Section* find(std::string_view name) const {
    const auto found = std::ranges::find(sections_, name, &Section::name);
    return found == sections_.end() ? nullptr : &*found;
  }
  /// The name of a symbol of `.symtab`.
  std::string symbol(std::uint32_t number) const {
    constexpr std::size_t kSymbolBytes = 24;
    const Section* symbols = find(".symtab");
    if (!symbols) fail("the cubin has no symbols");
    return std::string(text(section(symbols->link), read<std::uint32_t>(symbols->offset + number * kSymbolBytes)));
  }

 private:
  const Section& section(std::size_t k) const {
    if (k >= sections_.size()) fail("the cubin is torn");
    return sections_[k];
  }
  std::string_view text(const Section& names, std::size_t offset) const {
    const std::string_view all(reinterpret_cast<const char*>(file_.data()), file_.size());
    const std::size_t begin = names.offset + offset, end = begin < all.size() ? all.find('\0', begin) : all.npos;
    if (end == all.npos) fail("the cubin is torn");
    return all.substr(begin, end - begin);
  }

  std::span<const std::byte> file_;
  std::vector<Section> sections_;
};

/// The entries of `.nv.info`: a form, a key, and a value of two bytes or, in the last form, as many as those say.
void read_info(const Elf& elf, const Section& info, std::map<std::string, KernelResources>& kernels) {
  constexpr std::uint8_t kSized = 4, kRegisters = 0x2f, kFrame = 0x11;
  for (std::size_t at = info.offset; at < info.offset + info.bytes;) {
    const auto form = elf.read<std::uint8_t>(at), key = elf.read<std::uint8_t>(at + 1);
    const auto bytes = elf.read<std::uint16_t>(at + 2);
    at += 4;
    if (form != kSized) continue;
    if (key == kRegisters || key == kFrame) {
      const auto value = elf.read<std::uint32_t>(at + 4);
      KernelResources& kernel = kernels[elf.symbol(elf.read<std::uint32_t>(at))];
      if (key == kRegisters)
        kernel.registers = static_cast<int>(value);
      else
        kernel.stack_bytes = value;
    }
    at += bytes;
  }
}

std::optional<std::filesystem::path> disassembler() {
  constexpr const char* kName = "nvdisasm";
  if (auto found = find_program(kName)) return found;
  std::vector<std::filesystem::path> toolkits{"/usr/local/cuda"};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable)) toolkits.insert(toolkits.begin(), home);
  for (const auto& toolkit : toolkits)
    if (auto found = find_program((toolkit / "bin" / kName).string())) return found;
  return std::nullopt;
}

}  // namespace

bool is_cubin(std::span<const std::byte> binary) {
  return binary.size() > kMagic.size() && std::memcmp(binary.data(), kMagic.data(), kMagic.size()) == 0;
}

std::vector<KernelResources> cubin_resources(std::span<const std::byte> cubin) {
  const Elf elf(cubin);
  std::map<std::string, KernelResources> kernels;
  if (const Section* info = elf.find(".nv.info")) read_info(elf, *info, kernels);
  constexpr std::string_view kShared = ".nv.shared.", kReserved = ".nv.shared.reserved.0";
  const std::int64_t reserved = elf.find(kReserved) ? kReservedBytes : 0;
  for (const Section& s : elf.sections())
    if (s.name.starts_with(kShared))
      if (const auto kernel = kernels.find(std::string(s.name.substr(kShared.size()))); kernel != kernels.end())
        kernel->second.shared_bytes = std::max<std::int64_t>(0, static_cast<std::int64_t>(s.bytes) - reserved);
  std::vector<KernelResources> out;
  for (auto& [symbol, kernel] : kernels) {
    if (!elf.find(".text." + symbol)) continue;  // a function that kernels call
    kernel.symbol = symbol;
    out.push_back(std::move(kernel));
  }
  return out;
}

std::string disassembled(std::span<const std::byte> cubin) {
  const auto program = disassembler();
  if (!program)
    return "no nvdisasm in PATH, CUDA_HOME/bin or /usr/local/cuda/bin: it prints a cubin's instructions, and comes "
           "with "
           "CUDA's toolkit\n";
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "kernels.cubin";
  write_file(file, std::string_view(reinterpret_cast<const char*>(cubin.data()), cubin.size()));
  const ProcessResult result = run_process({program->string(), "--print-code", file.string()});
  if (!result.ok()) return fmt::format("{} refused the cubin: {}\n", program->string(), result.err);
  return result.out;
}

}  // namespace coil::codegen
