// SPDX-License-Identifier: Apache-2.0
// How samples come from Python. One process, the server, imports the user's code and opens the data set. It answers on
// a control socket: which fields a part has, and how many samples. Each thread of this process that reads samples gets
// a worker process, which the server forks. A thread sends (seed, epoch, sample) on the worker's socket. The worker
// lays the sample into memory that both map, and answers with a length of 0. After a failure it answers with the error
// as JSON instead.
//
// A worker belongs to one thread while the thread reads a sample. At other times it is in `idle_`. `mutex_` guards
// `idle_`, and the server has a mutex of its own for its control socket. When a socket is closed, the process at its
// other end exits. So server and workers end however this process ends. python/lockstep_host/data.py is the other side,
// and python_server.cc starts it. python_stream.cc reads iterable data sets, which have no order.
#include "lockstep/data/source/python_source.h"

#include <cstring>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/source/python_server.h"
#include "lockstep/data/source/python_stream.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

struct Request {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t id = 0;
};

class PythonSource final : public SampleSource {
 public:
  PythonSource(std::shared_ptr<PythonServer> server, std::string function, std::string split, const Json& part)
      : server_(std::move(server)), function_(std::move(function)), split_(std::move(split)) {
    size_ = part.at("size");
    classes_ = part.at("classes");
    for (const auto& each : part.at("fields")) {
      fields_.push_back({each.at("name"), each.at("dtype"), each.at("shape").get<std::vector<std::int64_t>>()});
      bytes_ += fields_.back().bytes();
    }
  }

  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  std::string name_of(std::int64_t id) const override {
    return "sample " + std::to_string(id) + " of " + function_ + " (" + split_ + ")";
  }

  // If a read fails, the worker is still put back into `idle_`, since the failure is the sample's. If the worker has
  // ended, its next read fails too, with a message that says so.
  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    auto worker = taken();
    try {
      const Request request{.seed = key.seed, .epoch = key.epoch, .id = key.id};
      worker->send(&request, sizeof(request));  // If the worker is gone, the next line says so.
      worker->next_message();
      const auto* from = worker->memory();
      for (std::size_t i = 0; i < fields_.size(); ++i) {
        std::memcpy(to[i], from, fields_[i].bytes());
        from += fields_[i].bytes();
      }
    } catch (...) {
      give_back(std::move(worker));
      throw;
    }
    give_back(std::move(worker));
  }

 private:
  std::unique_ptr<PythonWorker> taken() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto worker = std::move(idle_.back());
        idle_.pop_back();
        return worker;
      }
    }
    return std::make_unique<PythonWorker>(server_->fork({{"split", split_}}, bytes_));
  }

  void give_back(std::unique_ptr<PythonWorker> worker) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

  std::shared_ptr<PythonServer> server_;
  std::string function_;
  std::string split_;
  std::int64_t size_ = 0;
  std::int64_t classes_ = 0;
  std::vector<Field> fields_;
  std::size_t bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<PythonWorker>> idle_;
};

}  // namespace

std::optional<PythonPart> python_part(const PythonData& data, const std::string& split, std::uint64_t seed) {
  auto server = PythonServer::shared(data);
  const auto part = server->open(split, seed);
  if (!part.at("is_there").get<bool>()) return std::nullopt;
  if (part.at("is_stream").get<bool>()) {
    return PythonPart{.samples = python_stream(std::move(server), split, part), .class_names = part.at("class_names")};
  }
  return PythonPart{.samples = std::make_shared<PythonSource>(std::move(server), data.function, split, part),
                    .class_names = part.at("class_names")};
}

}  // namespace lockstep
