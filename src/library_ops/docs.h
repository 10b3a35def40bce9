// The table as a page: docs/library_ops.md.
#pragma once
#include <string>

namespace coil::library_ops {

/// Markdown, wrapped nowhere: the same table gives the same text.
std::string docs_page();

}  // namespace coil::library_ops
