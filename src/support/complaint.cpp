#include "support/complaint.h"

#include <sstream>

namespace coil {

std::string first_complaint(const std::string& output) {
  std::istringstream lines(output);
  std::string first, vague;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error:") != std::string::npos || line.find("Error:") != std::string::npos) return line;
    if (vague.empty() && line.find("error") != std::string::npos) vague = line;
    if (first.empty()) first = line;
  }
  if (!vague.empty()) return vague;
  return first.empty() ? "it said nothing" : first;
}

}  // namespace coil
