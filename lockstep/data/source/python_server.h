// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/data/source/python_source.h"

namespace lockstep {

/// A worker process: its socket, and memory that it shares with this process, for samples. The destructor ends it.
class PythonWorker {
 public:
  PythonWorker(FileDescriptor socket, void* memory, std::size_t bytes);
  PythonWorker(PythonWorker&& other) noexcept;
  PythonWorker(const PythonWorker&) = delete;
  PythonWorker& operator=(const PythonWorker&) = delete;
  PythonWorker& operator=(PythonWorker&&) = delete;
  ~PythonWorker();

  /// Sends bytes. Returns false if the worker has ended.
  bool send(const void* bytes, std::size_t size) const;

  /// Returns the worker's next message, which is empty after a sample that it has written.
  ///
  /// Blocks: until the message is there. Throws: the error that the worker reports; Error(kEnvironment) if it has
  /// ended.
  nlohmann::json next_message() const;

  const std::byte* memory() const { return memory_; }

 private:
  FileDescriptor socket_;
  std::byte* memory_;
  std::size_t bytes_;
};

/// The process that has imported the user's code. It forks the workers. The destructor ends it.
class PythonServer {
 public:
  /// Throws: Error(kEnvironment) if the interpreter cannot be started.
  explicit PythonServer(const PythonData& data);
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;
  ~PythonServer();

  /// Returns the server of a data set, one for all of its parts.
  static std::shared_ptr<PythonServer> shared(const PythonData& data);

  /// Opens a part of the data set, and returns the server's description of it. Threads: any, here and below.
  nlohmann::json open(const std::string& split, std::uint64_t seed);

  /// Forks a worker that shares `bytes` of memory with this process. `wanted` says which part it reads, and how.
  PythonWorker fork(const nlohmann::json& wanted, std::size_t bytes);

  const PythonData& data() const { return data_; }

 private:
  PythonData data_;
  std::mutex mutex_;
  FileDescriptor control_;
  pid_t process_ = -1;
};

}  // namespace lockstep
