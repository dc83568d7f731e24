// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/local/local_store.h"

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/system_files.h"
#include "lockstep/launch/socket.h"
#include "lockstep/store/client.h"

namespace lockstep {

// Several nodes may share the cache folder, and a port may be used again later. So the name has more than the port.
LocalStore::LocalStore(const std::filesystem::path& run_dir, int port, const Environment& env)
    : file_(secret_folder(run_dir,
                          "local-" + host_name() + "-" + std::to_string(::getpid()) + "-" + std::to_string(port), env)),
      port_(port),
      has_run_dir_(!run_dir.empty()) {}

LocalStore::~LocalStore() {
  server_.reset();
  file_.remove();
}

void LocalStore::prepare(FileDescriptor& bound, const Log& log) {
  if (!bound) return;
  try {
    secret_ = file_.create();
  } catch (const Error& error) {
    if (has_run_dir_ || error.kind() != ErrorKind::kIo) throw;
    log.warning(std::string(error.fact()) + ", so the ranks share no secret");
    has_secret_ = false;
    return;
  }
  bound_ = std::move(bound);
}

void LocalStore::serve() {
  if (!bound_) return;
  server_ = std::make_unique<StoreServer>(std::move(bound_), identity());
}

std::uint32_t LocalStore::next_generation() {
  const auto until = Clock::now() + std::chrono::seconds(5);
  StoreClient client(connect_once({"127.0.0.1", port_}, until), identity(), until);
  return lockstep::next_generation(client, until);
}

StoreIdentity LocalStore::identity() const { return {*secret_, "port " + std::to_string(port_)}; }

void LocalStore::describe(Environment::Map& variables) const {
  variables.erase("LOCKSTEP_MEETING");
  variables.erase("LOCKSTEP_STORE_SERVED");
  if (!has_secret_) return;
  variables["LOCKSTEP_MEETING"] = file_.path().parent_path().string();
  if (secret_) variables["LOCKSTEP_STORE_SERVED"] = "1";
}

}  // namespace lockstep
