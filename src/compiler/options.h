// The `--set KEY=VALUE` settings: one table, from which parsing, checking and help are made.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "target/settings.h"

namespace coil {

struct SettingHelp {
  std::string key, values, text;
};

/// Throws Error on an unknown key (listing those that exist) or a value that the key does not take.
Settings parse_settings(const std::map<std::string, std::string>&);
/// All keys, for `--help`.
std::vector<SettingHelp> settings_help();

}  // namespace coil
