// Which arguments of operators must lie in memory that the ranks of a process group share: programs that call such an
// operator make those arguments there.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace coil::runtime {

/// From now on these arguments of the operator of this schema (in torch's notation), tensors or lists of tensors, are
/// given to it in communication buffers by the programs that are compiled. Throws Error on a name that the schema does
/// not have, an argument that is no tensor, a name that comes twice, an operator that has other names already, and on
/// one that returns an argument that it writes to (`Tensor(a!) -> Tensor(a!)`): a program would be given a copy of it.
void register_symm_mem_args(std::string_view schema, std::vector<std::string> names);
/// The arguments that were named for an operator, as `mylib.push.default`, in that order; empty where nobody has named
/// any.
std::vector<std::string> symm_mem_args(std::string_view operator_name);

/// Whether any operator has some.
bool has_symm_mem_args();

}  // namespace coil::runtime
