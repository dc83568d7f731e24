// SPDX-License-Identifier: Apache-2.0 How samples come from Python. One process, the server, imports the user's code
// and opens the data set. It answers on a control socket: which fields a part has, and how many samples. Each thread of
// this process that reads samples gets a worker process, which the server forks. A thread sends (seed, epoch, sample)
// on the worker's socket. The worker lays the sample into memory that both map, and answers with a length of 0. After a
// failure it answers with the error as JSON instead.
//
// A worker belongs to one thread while the thread reads a sample. At other times it is in `idle_`. `mutex_` guards
// `idle_`, and the server's own guards its control socket. When a socket is closed, the process at its other end exits.
// So server and workers end however this process ends. python/lockstep_host/data.py is the other side.
#include "lockstep/data/source/python_source.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

extern char** environ;  // NOLINT

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr int kSocketOfServer = 3;

struct Request {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t id = 0;
};

Error system_failure(const std::string& what) {
  return {ErrorKind::kEnvironment, what + ": " + std::strerror(errno),
          "close programs, or raise the limits of this shell"};
}

std::pair<FileDescriptor, FileDescriptor> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw system_failure("make a socket");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Returns false if the process at the other end has ended.
bool send_all(const FileDescriptor& to, const void* bytes, std::size_t size) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const auto sent = ::send(to.get(), at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(const FileDescriptor& from, void* bytes, std::size_t size) {
  auto* at = static_cast<char*>(bytes);
  while (size > 0) {
    const auto got = ::recv(from.get(), at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Receives a length and a text of this length. Returns nothing if the process at the other end has ended.
std::optional<std::string> received_text(const FileDescriptor& from) {
  std::uint32_t length = 0;
  if (!receive_all(from, &length, sizeof(length))) return std::nullopt;
  std::string text(length, '\0');
  if (!receive_all(from, text.data(), text.size())) return std::nullopt;
  return text;
}

bool send_text(const FileDescriptor& to, const std::string& text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  return send_all(to, &length, sizeof(length)) && send_all(to, text.data(), text.size());
}

[[noreturn]] void throw_told(const Json& failure) {
  const auto code = failure.at("code").get<int>();
  const auto kind = code == 3   ? ErrorKind::kRecipe
                    : code == 4 ? ErrorKind::kEnvironment
                    : code == 6 ? ErrorKind::kIo
                                : ErrorKind::kData;
  throw Error(kind, failure.at("fact").get<std::string>(), failure.at("hint").get<std::string>());
}

/// A worker process: its socket, and the memory that it shares with this process.
class Worker {
 public:
  Worker(FileDescriptor socket, void* memory, std::size_t bytes)
      : socket_(std::move(socket)), memory_(static_cast<std::byte*>(memory)), bytes_(bytes) {}
  Worker(Worker&& other) noexcept
      : socket_(std::move(other.socket_)), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  Worker& operator=(Worker&&) = delete;
  // shutdown() ends the worker even if a process that was forked from this one has a copy of the socket. close() alone
  // would not.
  ~Worker() {
    if (memory_ == nullptr) return;
    ::shutdown(socket_.get(), SHUT_RDWR);
    ::munmap(memory_, bytes_);
  }

  /// Returns the sample's bytes. They are valid until the next call.
  const std::byte* read(const Request& request) const {
    std::optional<std::string> failure;
    if (send_all(socket_, &request, sizeof(request))) failure = received_text(socket_);
    if (failure && failure->empty()) return memory_;
    if (failure) throw_told(Json::parse(*failure));
    throw Error(
        ErrorKind::kEnvironment, "the Python process that read it ended",
        "often it was killed because the job has too little memory, or it crashed in a compiled package; each of "
        "data.workers is a process");
  }

 private:
  FileDescriptor socket_;
  std::byte* memory_;
  std::size_t bytes_;
};

/// The server: the process that has imported the user's code.
class Server {
 public:
  explicit Server(const PythonData& data) : data_(data) {
    auto [ours, theirs] = socket_pair();
    control_ = std::move(ours);
    const auto script = (data.host / "data.py").string();
    std::array<char*, 3> words = {const_cast<char*>(data_.python.c_str()), const_cast<char*>(script.c_str()), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kSocketOfServer);
    const int error = ::posix_spawn(&process_, words[0], &actions, nullptr, words.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error == 0) return;
    errno = error;
    throw system_failure("start '" + data_.python + "'");
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    ::shutdown(control_.get(), SHUT_RDWR);
    ::waitpid(process_, nullptr, 0);
  }

  /// Opens a part of the data set, and returns the server's description of it.
  Json open(const std::string& split, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    const Json asked = {{"split", split},
                        {"seed", seed},
                        {"source", data_.source},
                        {"function", data_.function},
                        {"arguments", Json::parse(data_.arguments)}};
    std::optional<std::string> told;
    if (send_text(control_, asked.dump())) told = received_text(control_);
    if (!told) throw ended();
    auto part = Json::parse(*told);
    if (part.contains("code")) throw_told(part);
    return part;
  }

  Worker fork(const std::string& split, std::size_t bytes) {
    auto [ours, theirs] = socket_pair();
    const FileDescriptor file(::memfd_create("lockstep-sample", MFD_CLOEXEC));
    const auto size = std::max<std::size_t>(bytes, 1);
    if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0)
      throw system_failure("make shared memory");
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) throw system_failure("map shared memory");
    Worker worker(std::move(ours), memory, size);
    const std::lock_guard lock(mutex_);
    if (!send_with_files(Json({{"split", split}}).dump(), {theirs.get(), file.get()})) throw ended();
    return worker;
  }

 private:
  bool send_with_files(const std::string& text, std::array<int, 2> files) const {
    auto length = static_cast<std::uint32_t>(text.size());
    iovec part{&length, sizeof(length)};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(files))> room{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(files));
    std::memcpy(CMSG_DATA(head), files.data(), sizeof(files));
    return ::sendmsg(control_.get(), &message, MSG_NOSIGNAL) == sizeof(length) &&
           send_all(control_, text.data(), text.size());
  }

  Error ended() const {
    return {ErrorKind::kEnvironment, "the Python process that holds the data set of " + data_.function + " ended",
            "its last lines are above; '" + data_.python + "' runs it, or the Python that LOCKSTEP_PYTHON names"};
  }

  PythonData data_;
  std::mutex mutex_;
  FileDescriptor control_;
  pid_t process_ = -1;
};

/// The server of a data set, one for all of its parts.
std::shared_ptr<Server> server_of(const PythonData& data) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Server>> servers;
  const std::lock_guard lock(mutex);
  auto& known = servers[data.python + "\n" + data.source + "\n" + data.function + "\n" + data.arguments];
  auto server = known.lock();
  if (!server) known = server = std::make_shared<Server>(data);
  return server;
}

class PythonSource final : public SampleSource {
 public:
  PythonSource(std::shared_ptr<Server> server, std::string function, std::string split, const Json& part)
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
      const auto* from = worker->read({.seed = key.seed, .epoch = key.epoch, .id = key.id});
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
  std::unique_ptr<Worker> taken() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto worker = std::move(idle_.back());
        idle_.pop_back();
        return worker;
      }
    }
    return std::make_unique<Worker>(server_->fork(split_, bytes_));
  }

  void give_back(std::unique_ptr<Worker> worker) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

  std::shared_ptr<Server> server_;
  std::string function_;
  std::string split_;
  std::int64_t size_ = 0;
  std::int64_t classes_ = 0;
  std::vector<Field> fields_;
  std::size_t bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
};

}  // namespace

std::optional<PythonPart> python_part(const PythonData& data, const std::string& split, std::uint64_t seed) {
  auto server = server_of(data);
  const auto part = server->open(split, seed);
  if (!part.at("is_there").get<bool>()) return std::nullopt;
  return PythonPart{.samples = std::make_shared<PythonSource>(std::move(server), data.function, split, part),
                    .class_names = part.at("class_names")};
}

}  // namespace lockstep
