// A store in a folder: a key is a file that is written aside and renamed into place.
#include <filesystem>

#include "runtime/groups/stores.h"
#include "support/error.h"
#include "support/file.h"

namespace coil::runtime::groups {
namespace {

class FileStore final : public Store {
 public:
  explicit FileStore(const std::string& folder) : folder_(folder) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) fail("the store's folder {} cannot be made: {}", folder, error.message());
  }

  void set(const std::string& key, const std::string& value) override { write_file(path(key), value); }

  bool has(const std::string& key) override {
    std::error_code error;
    return std::filesystem::exists(path(key), error);
  }

  std::string get(const std::string& key, Milliseconds timeout) override {
    await_key(*this, key, timeout, "the store " + folder_.string());
    return read_file(path(key));
  }

 private:
  /// Keys have slashes and the like.
  std::filesystem::path path(const std::string& key) const {
    std::string name = "key-";
    for (const unsigned char c : key) {
      if (std::isalnum(c) != 0 || c == '-' || c == '.')
        name += static_cast<char>(c);
      else
        name += fmt::format("_{:02x}", static_cast<unsigned>(c));
    }
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

class Prefixed final : public Store {
 public:
  Prefixed(std::shared_ptr<Store> store, std::string prefix) : store_(std::move(store)), prefix_(std::move(prefix)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(prefix_ + key, value); }
  bool has(const std::string& key) override { return store_->has(prefix_ + key); }
  std::string get(const std::string& key, Milliseconds timeout) override { return store_->get(prefix_ + key, timeout); }
  std::string local_address() const override { return store_->local_address(); }

 private:
  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> open_file_store(const std::string& folder) { return std::make_shared<FileStore>(folder); }

std::shared_ptr<Store> with_prefix(std::shared_ptr<Store> store, std::string prefix) {
  return std::make_shared<Prefixed>(std::move(store), std::move(prefix));
}

}  // namespace coil::runtime::groups
