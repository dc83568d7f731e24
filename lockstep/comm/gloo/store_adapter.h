// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "lockstep/store/connections.h"

namespace lockstep {

/// The run's store, for ProcessGroupGloo and ProcessGroupNCCL.
///
/// Makes the run's store usable as a c10d::Store. Failures become c10d's exceptions: DistStoreError if a request took
/// too long or was refused, and DistNetworkError if the server is gone.
///
/// Threads: safe. A thread that waits for a key does not delay other threads. NCCL's watchdog needs this.
class StoreAdapter final : public c10d::Store {
 public:
  using Bytes = std::vector<std::uint8_t>;

  /// `timeout` applies to requests that have no time limit of their own. All keys belong to `generation`.
  StoreAdapter(std::shared_ptr<StoreConnections> connections, std::chrono::milliseconds timeout,
               std::uint32_t generation = 1);

  /// Keeps the server alive for as long as this store and its clones.
  void keep(std::shared_ptr<void> server) { server_ = std::move(server); }

#if LOCKSTEP_TORCH_VERSION >= 208  // Before, there was nothing to override.
  c10::intrusive_ptr<c10d::Store> clone() override;
#endif

  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) override;
  Bytes get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const Bytes& value) override;
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  std::vector<std::string> ask(StoreOperation operation, std::vector<std::string> fields,
                               std::chrono::milliseconds timeout);

  std::shared_ptr<void> server_;  // Outlives the connections to it.
  std::shared_ptr<StoreConnections> connections_;
  std::uint32_t generation_;
};

/// Makes Gloo ask for keys in batches, and write short ones. Its traffic in the store then grows with the number of
/// ranks and not with its square. Call it before the first group is made.
void use_batched_gloo_keys();

}  // namespace lockstep
