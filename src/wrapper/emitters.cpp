#include "wrapper/emitters.h"

#include <map>
#include <mutex>

#include "support/error.h"
#include "wrapper/emit_cpp.h"
#include "wrapper/emit_fx.h"
#include "wrapper/emit_python.h"
#include "wrapper/text.h"

namespace coil::wrapper {
namespace {

/// The wrapper lines themselves, as text.
class TextEmitter : public Emitter {
 public:
  bool writes_several_devices() const override { return true; }
  std::string emit(const Program& p, const EmitOptions&) override {
    lines_.clear();
    for (std::size_t i = 0; i < p.lines.size(); ++i)
      lines_.push_back({2 + p.buffers.size() + i, 1});  // after the head and the buffers, a line is a line
    return to_text(p);
  }
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, EmitterFactory, std::less<>> factories = {
      {"cpp", [] { return std::make_unique<CppEmitter>(); }},
      {"python", [] { return std::make_unique<PythonEmitter>(); }},
      {"fx", [] { return std::make_unique<FxEmitter>(); }},
      {"wrapper", [] { return std::make_unique<TextEmitter>(); }},
  };
};

Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

void register_emitter(const std::string& language, EmitterFactory factory) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (language == kPackage || language == kTorchPackage || !r.factories.emplace(language, std::move(factory)).second)
    fail("there is an emitter for '{}' already", language);
}

std::unique_ptr<Emitter> make_emitter(std::string_view language) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto found = r.factories.find(language);
  if (found != r.factories.end()) return found->second();
  std::string known;
  for (const auto& [name, factory] : r.factories) known += (known.empty() ? "" : ", ") + name;
  fail("there is no emitter for '{}'; there are {}", language, known);
}

std::vector<std::string> emitter_names() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : r.factories) names.push_back(name);
  return names;
}

}  // namespace coil::wrapper
