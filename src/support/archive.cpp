#include "support/archive.h"

#include <libdeflate.h>

#include "support/error.h"
#include "support/mapped_file.h"

namespace coil {

namespace {

// PKWARE's APPNOTE.TXT: signatures and fixed lengths of the records used here.
constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kEnd64Locator = 0x07064b50;
constexpr std::size_t kLocalHeaderSize = 30, kCentralHeaderSize = 46, kEndSize = 22, kEnd64Size = 56,
                      kEnd64LocatorSize = 20, kMaxComment = 0xffff;
constexpr std::uint16_t kStored = 0, kDeflated = 8, kZip64Extra = 0x0001, kPaddingExtra = 0xa11e;
constexpr std::uint32_t kIn64 = 0xffffffff;
constexpr std::uint16_t kIn64Short = 0xffff;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kVerifyChecksums = false;
#else
constexpr bool kVerifyChecksums = true;
#endif
constexpr std::uint64_t kDeflateMaxRatio = 1032;  // no deflate stream gives more bytes than this for one

/// Little-endian fields of a record that is known to lie inside the archive.
struct Record {
  const std::byte* at;
  template <class T>
  T get(std::size_t offset) const {
    std::uint64_t v = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) v = v << 8 | static_cast<std::uint64_t>(at[offset + i]);
    return static_cast<T>(v);
  }
  std::uint16_t u16(std::size_t offset) const { return get<std::uint16_t>(offset); }
  std::uint32_t u32(std::size_t offset) const { return get<std::uint32_t>(offset); }
  std::uint64_t u64(std::size_t offset) const { return get<std::uint64_t>(offset); }
};

/// Where the end record lies: the last one whose comment runs to the end of the file.
std::optional<std::size_t> find_end(std::span<const std::byte> bytes) {
  if (bytes.size() < kEndSize) return {};
  const std::size_t last = bytes.size() - kEndSize;
  for (std::size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
    const Record r{bytes.data() + last - back};
    if (r.u32(0) == kEnd && r.u16(20) == back) return last - back;
  }
  return {};
}

struct Directory {
  std::uint64_t entries, size, offset;
};

Directory find_directory(std::span<const std::byte> bytes) {
  const auto end = find_end(bytes);
  if (!end) fail("it has no zip directory (truncated, or no zip file)");
  const Record r{bytes.data() + *end};
  Directory d{r.u16(10), r.u32(12), r.u32(16)};
  std::uint64_t limit = *end;
  const bool in64 = d.entries == kIn64Short || d.size == kIn64 || d.offset == kIn64;
  if (in64 && *end >= kEnd64LocatorSize) {
    const Record locator{bytes.data() + *end - kEnd64LocatorSize};
    if (locator.u32(0) == kEnd64Locator) {
      const std::uint64_t at = locator.u64(8);
      if (at > *end - kEnd64LocatorSize || *end - kEnd64LocatorSize - at < kEnd64Size)
        fail("its zip64 end record lies outside it");
      const Record end64{bytes.data() + at};
      if (end64.u32(0) != kEnd64) fail("its zip64 end record is malformed");
      d = {end64.u64(32), end64.u64(40), end64.u64(48)};
      limit = at;
    }
  }
  if (d.offset > limit || d.size > limit - d.offset) fail("its directory lies outside it");
  return d;
}

/// Why a reader should not trust a name; empty when it may.
std::string_view fault_of(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.find('\0') != std::string_view::npos) return "holds a zero byte";
  if (name.find('\\') != std::string_view::npos) return "holds a backslash";
  if (name.front() == '/') return "is absolute";
  if (name.size() > 1 && name[1] == ':') return "names a drive";
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t slash = std::min(name.find('/', at), name.size());
    if (name.substr(at, slash - at) == "..") return "leaves the archive";
    at = slash + 1;
  }
  return {};
}

}  // namespace

Archive Archive::open(const std::filesystem::path& path, ArchiveLimits limits) {
  const auto file = MappedFile::open(path, MappedFile::Mode::CopyOnWrite);
  return from_bytes({std::shared_ptr<std::byte>(file, file->at(0)), file->size()}, path.string(), limits);
}

Archive Archive::from_bytes(Bytes bytes, std::string name, ArchiveLimits limits) {
  Archive archive;
  archive.bytes_ = std::move(bytes);
  archive.name_ = std::move(name);
  try {
    archive.read_directory(limits);
  } catch (const Error& e) {
    fail("cannot read {}: {}", archive.name_, e.what());
  }
  return archive;
}

void Archive::read_directory(const ArchiveLimits& limits) {
  const Directory directory = find_directory(bytes_.span());
  if (directory.entries > limits.entries)
    fail("it claims {} entries; the limit is {}", directory.entries, limits.entries);
  std::size_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.entries; ++i) at = read_entry(at, directory.offset + directory.size);
  std::uint64_t inflated = 0;
  for (const auto& [name, entry] : entries_)
    if (entry.method == kDeflated && __builtin_add_overflow(inflated, entry.size, &inflated))
      inflated = ~std::uint64_t{0};
  const std::uint64_t allowed = std::max(limits.inflated_bytes, limits.inflated_ratio * bytes_.size);
  if (inflated > allowed) fail("its {} bytes would inflate to {}; the limit is {}", bytes_.size, inflated, allowed);
}

/// Reads the directory's record at `at`, which must end by `end`; returns where the next one starts.
std::size_t Archive::read_entry(std::size_t at, std::size_t end) {
  if (end - at < kCentralHeaderSize) fail("its directory ends within an entry");
  const Record r{bytes_.data.get() + at};
  if (r.u32(0) != kCentralHeader) fail("its directory is malformed");
  const std::size_t name_size = r.u16(28), extra_size = r.u16(30), comment_size = r.u16(32);
  const std::size_t record = kCentralHeaderSize + name_size + extra_size + comment_size;
  if (end - at < record) fail("its directory ends within an entry");
  const std::string name(reinterpret_cast<const char*>(r.at + kCentralHeaderSize), name_size);
  if (const auto fault = fault_of(name); !fault.empty()) fail("the entry name '{}' {}", name.c_str(), fault);
  if ((r.u16(8) & 1) != 0) fail("entry '{}' is encrypted", name);

  Entry entry{r.u16(10), r.u32(16), r.u32(20), r.u32(24), r.u32(42)};
  const bool wide_size = entry.size == kIn64, wide_compressed = entry.compressed == kIn64,
             wide_header = entry.header == kIn64;
  const Record extra{r.at + kCentralHeaderSize + name_size};
  for (std::size_t e = 0; extra_size - e >= 4 && (wide_size || wide_compressed || wide_header);) {
    const std::size_t id = extra.u16(e), size = extra.u16(e + 2);
    if (extra_size - e - 4 < size) fail("entry '{}' has a malformed extra field", name);
    if (id == kZip64Extra) {
      std::size_t field = e + 4;
      const std::size_t field_end = field + size;
      auto widen = [&](bool wide, std::uint64_t& value) {
        if (!wide) return;
        if (field_end - field < 8) fail("entry '{}' has a malformed zip64 field", name);
        value = extra.u64(field);
        field += 8;
      };
      widen(wide_size, entry.size);
      widen(wide_compressed, entry.compressed);
      widen(wide_header, entry.header);
      break;
    }
    e += 4 + size;
  }
  if (name.back() == '/') {
    if (entry.size != 0) fail("the folder '{}' holds data", name);
  } else if (!entries_.emplace(name, entry).second) {
    fail("entry '{}' is there twice", name);
  }
  return at + record;
}

std::vector<std::string> Archive::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const Archive::Entry& Archive::find(std::string_view entry) const {
  const auto it = entries_.find(entry);
  if (it == entries_.end()) fail("{} has no entry '{}'", name_, entry);
  return it->second;
}

Bytes Archive::map(std::string_view name) const {
  const Entry& entry = find(name);
  const std::size_t size = bytes_.size;
  if (entry.header > size || size - entry.header < kLocalHeaderSize)
    fail("{}: entry '{}' lies outside the archive", name_, name);
  const Record local{bytes_.data.get() + entry.header};
  if (local.u32(0) != kLocalHeader) fail("{}: entry '{}' has no header where the directory says", name_, name);
  const std::size_t name_size = local.u16(26), extra_size = local.u16(28);
  const std::size_t left = size - entry.header - kLocalHeaderSize;
  if (left < name_size + extra_size || left - name_size - extra_size < entry.compressed)
    fail("{}: entry '{}' of {} bytes reaches past the archive's end", name_, name, entry.compressed);
  if (std::string_view(reinterpret_cast<const char*>(local.at + kLocalHeaderSize), name_size) != name)
    fail("{}: entry '{}' has another name in its header", name_, name);
  const Bytes data = bytes_.part(entry.header + kLocalHeaderSize + name_size + extra_size, entry.compressed);
  if (entry.method == kDeflated) return inflate(name, entry, data);
  if (entry.method != kStored)
    fail("{}: entry '{}' is compressed by method {}; only stored and deflated entries are read", name_, name,
         entry.method);
  if (entry.size != entry.compressed) fail("{}: stored entry '{}' has two sizes", name_, name);
  return data;
}

Bytes Archive::inflate(std::string_view name, const Entry& entry, Bytes compressed) const {
  if (entry.size / kDeflateMaxRatio > compressed.size)
    fail("{}: entry '{}' claims {} bytes, more than its {} can inflate to", name_, name, entry.size, compressed.size);
  const std::shared_ptr<libdeflate_decompressor> inflater(libdeflate_alloc_decompressor(),
                                                          libdeflate_free_decompressor);
  constexpr std::size_t kAlignment = 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, (entry.size / kAlignment + 1) * kAlignment));
  Bytes out{std::shared_ptr<std::byte>(memory, [](std::byte* p) { std::free(p); }), entry.size};
  if (!inflater || !memory) fail("{}: out of memory for entry '{}' of {} bytes", name_, name, entry.size);
  if (libdeflate_deflate_decompress(inflater.get(), compressed.data.get(), compressed.size, memory, entry.size,
                                    nullptr) != LIBDEFLATE_SUCCESS)
    fail("{}: entry '{}' does not inflate to the {} bytes it claims", name_, name, entry.size);
  if (kVerifyChecksums && libdeflate_crc32(0, memory, entry.size) != entry.crc)
    fail("{}: entry '{}' has a wrong checksum", name_, name);
  return out;
}

Bytes Archive::read(std::string_view name) const {
  Bytes bytes = map(name);
  const Entry& entry = find(name);
  if (kVerifyChecksums && entry.method == kStored && libdeflate_crc32(0, bytes.data.get(), bytes.size) != entry.crc)
    fail("{}: entry '{}' has a wrong checksum", name_, name);
  return bytes;
}

namespace {

/// A record being written, little-endian.
struct Fields {
  std::string bytes;
  template <class T>
  Fields& put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i)
      bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i)));
    return *this;
  }
  Fields& u16(std::uint64_t v) { return put(static_cast<std::uint16_t>(v)); }
  Fields& u32(std::uint64_t v) { return put(static_cast<std::uint32_t>(v)); }
  Fields& u64(std::uint64_t v) { return put(v); }
  Fields& text(std::string_view s) {
    bytes += s;
    return *this;
  }
  /// What the local and the central header share, from `version needed` to the lengths: flags (UTF-8 names), stored,
  /// 1980-01-01 00:00.
  Fields& common(bool wide, bool far, std::uint32_t crc, std::uint64_t size, std::size_t name_size,
                 std::size_t extra_size) {
    const std::uint64_t narrow = wide ? kIn64 : size;
    return u16(wide || far ? 45 : 20)
        .u16(1 << 11)
        .u16(kStored)
        .u16(0)
        .u16(1 << 5 | 1)
        .u32(crc)
        .u32(narrow)
        .u32(narrow)
        .u16(name_size)
        .u16(extra_size);
  }
};

}  // namespace

ArchiveWriter::ArchiveWriter(std::filesystem::path path, std::size_t alignment)
    : file_(std::move(path)), alignment_(alignment) {}

void ArchiveWriter::add(std::string_view name, std::span<const std::byte> content, std::size_t alignment) {
  add_parts(name, {&content, 1}, alignment);
}

void ArchiveWriter::add_parts(std::string_view name, std::span<const std::span<const std::byte>> parts,
                              std::size_t alignment) {
  if (const auto fault = fault_of(name); !fault.empty() || name.back() == '/')
    fail("cannot write an entry whose name '{}' {}", name, fault.empty() ? "is a folder's" : fault);
  if (name.size() > kIn64Short) fail("cannot write an entry whose name has {} bytes", name.size());
  if (!names_.emplace(name).second) fail("cannot write entry '{}' twice", name);
  if (alignment == 0) alignment = alignment_;
  COIL_CHECK((alignment & (alignment - 1)) == 0 && alignment <= kIn64Short, "alignment {}", alignment);

  Entry entry{0, 0, file_.position()};
  for (const auto& part : parts) {
    entry.crc = libdeflate_crc32(entry.crc, part.data(), part.size());
    entry.size += part.size();
  }
  const bool wide = entry.size >= kIn64;
  Fields extra;
  if (wide) extra.u16(kZip64Extra).u16(16).u64(entry.size).u64(entry.size);
  constexpr std::size_t kFieldHeader = 4;
  const std::uint64_t unpadded = entry.header + kLocalHeaderSize + name.size() + extra.bytes.size() + kFieldHeader;
  const std::size_t padding = (alignment - unpadded % alignment) % alignment;
  extra.u16(kPaddingExtra).u16(padding).text(std::string(padding, '\0'));

  Fields header;
  header.u32(kLocalHeader)
      .common(wide, false, entry.crc, entry.size, name.size(), extra.bytes.size())
      .text(name)
      .text(extra.bytes);
  file_.write(header.bytes);
  for (const auto& part : parts) file_.write(part);
  entries_.emplace_back(name, entry);
}

void ArchiveWriter::commit() {
  const std::uint64_t directory = file_.position();
  for (const auto& [name, entry] : entries_) {
    const bool wide = entry.size >= kIn64, far = entry.header >= kIn64;
    Fields extra;
    if (wide || far) extra.u16(kZip64Extra).u16((wide ? 16 : 0) + (far ? 8 : 0));
    if (wide) extra.u64(entry.size).u64(entry.size);
    if (far) extra.u64(entry.header);
    Fields record;
    record.u32(kCentralHeader).u16(45).common(wide, far, entry.crc, entry.size, name.size(), extra.bytes.size());
    record.u16(0).u16(0).u16(0).u32(0).u32(far ? kIn64 : entry.header).text(name).text(extra.bytes);
    file_.write(record.bytes);
  }
  const std::uint64_t end = file_.position(), size = end - directory, count = entries_.size();
  Fields tail;
  if (count >= kIn64Short || size >= kIn64 || directory >= kIn64) {
    tail.u32(kEnd64).u64(kEnd64Size - 12).u16(45).u16(45).u32(0).u32(0).u64(count).u64(count).u64(size).u64(directory);
    tail.u32(kEnd64Locator).u32(0).u64(end).u32(1);
  }
  const auto short_count = std::min<std::uint64_t>(count, kIn64Short);
  tail.u32(kEnd)
      .u16(0)
      .u16(0)
      .u16(short_count)
      .u16(short_count)
      .u32(std::min<std::uint64_t>(size, kIn64))
      .u32(std::min<std::uint64_t>(directory, kIn64))
      .u16(0);
  file_.write(tail.bytes);
  file_.commit();
}

}  // namespace coil
