// The process groups of this process, by name: the group of all processes, which the environment tells of as torchrun
// writes it, and groups of some of them.
//
//     RANK, WORLD_SIZE            this process and their number
//     MASTER_ADDR, MASTER_PORT    where they find one another: a server, which rank 0 holds unless torchrun does
//     COIL_GROUP_STORE            instead of the two: tcp:HOST:PORT or file:FOLDER (a new one for each run)
//     COIL_GROUPS                 groups of some: `1=0,2;2=1,3` names their members' ranks
//     LOCAL_RANK                  this process among those of its machine: which GPU it uses
//     COIL_GROUP_BACKEND          gloo (of values on the host; those on CUDA devices go over nccl)
//     COIL_GROUP_SHARED           0: ranks share no memory, though they could
//     COIL_GROUP_TIMEOUT          seconds after which a rank that is late is an error; 300 where it is not given
//     COIL_GROUP_ADDRESS          of this machine for the others, where the store does not tell
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/groups/process_group.h"

namespace coil::runtime::groups {

/// How processes find one another.
struct World {
  int rank = 0, size = 1;
  std::string store;          ///< tcp:HOST:PORT or file:FOLDER
  bool serves = true;         ///< rank 0 holds a tcp store's server; else somebody does who lives longer
  std::string attempt = "0";  ///< of whoever holds it, which starts all processes anew where one fails
  bool shares = true;         ///< ranks of one machine share memory
  std::string backend = "gloo", address;
  Milliseconds timeout{300'000};
};

/// What the environment says; throws Error naming a variable that is missing or makes no sense.
World world_of_environment();
/// Instead of what the environment says. Throws Error where the group of all processes is there already.
void set_world(World);
/// A group of some processes, by their ranks among all, in the order of their ranks in the group. Throws Error for a
/// name that stands for other ranks already, and for ranks that there are not.
void define_group(const std::string& name, std::vector<int> ranks);

/// A group that something else in this process has made, as torch.distributed does. Its name begins with kOutside. It
/// is defined before a program that uses it first runs, and all its ranks have compared their programs by then: the
/// same exchanges start together on all of them, communication buffers of one plan are one allocation, and calls are
/// counted. After an exchange that failed the ranks meet anew in their next call.
struct OutsideGroup {
  int rank = 0;            ///< in the group
  std::vector<int> ranks;  ///< of its members among all processes
  std::shared_ptr<Store> store;
  std::string address;  ///< of this machine for the others
  Milliseconds timeout{};
  bool shares = true;  ///< memory, where its ranks can
};
inline constexpr std::string_view kOutside = "torch:";
bool is_outside(std::string_view name);
/// In place of one that had the name before, which all its ranks have left.
void define_outside(const std::string& name, OutsideGroup);
/// In a process that was forked from a rank's: their threads are not here, so that they are neither used nor taken
/// down.
void abandon_outside_groups();
/// The call count of a group from outside, for programs that are about to begin a call; null for other groups.
CallCount calls_of(std::string_view name);

/// Throws Error naming a group that is not there, this process is no member of, or this build cannot join. Looks at no
/// other process. `ranks`: how many it must have; 0: any number.
void require_group(std::string_view name, std::int64_t ranks = 0, Device = {});
/// The same for a group that may never be joined: its backend need not be there.
void require_member(std::string_view name);
/// What the members of a group find one another by.
struct Meeting {
  std::string name;
  int rank = 0;            ///< in the group
  std::vector<int> ranks;  ///< of its members among all processes
  std::shared_ptr<Store> store;
  Milliseconds timeout{};
  bool shares = true;    ///< memory, where they can
  bool by_plan = false;  ///< allocations of one plan are one
  CallCount calls;       ///< null where nobody counts them
  int size() const { return static_cast<int>(ranks.size()); }
};
/// The meeting of a group which this process is a member of. Reaches the store, and joins nothing. Throws Error as
/// require_group does.
Meeting meeting(std::string_view name);

/// The group; joined when it is first asked for, which returns when all its ranks have come. `default` and `0`, as
/// torch calls it, are all processes. For memory of another device than the host it is a group of its own.
std::shared_ptr<ProcessGroup> group(std::string_view name, Device = {});
/// A program has failed between two exchanges: ProcessGroup::abandon for what was joined by this name.
void abandon(std::string_view name) noexcept;
/// The device of a type that this process is to use where a program names the first: LOCAL_RANK counts the processes of
/// a machine.
Device device_of_rank(Device);

}  // namespace coil::runtime::groups
