// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/python_server.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/json_text.h"

extern char** environ;  // NOLINT

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr int kSocketOfServer = 3;

Error system_failure(const std::string& what) {
  return {ErrorKind::kEnvironment, what + ": " + std::strerror(errno),
          "close programs, or raise the limits of this shell"};
}

std::pair<FileDescriptor, FileDescriptor> socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw system_failure("make a socket");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// Sends all bytes. Returns false if the process at the other end has ended.
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

bool send_with_files(const FileDescriptor& to, const std::string& text, std::array<int, 2> files) {
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
  return ::sendmsg(to.get(), &message, MSG_NOSIGNAL) == sizeof(length) && send_all(to, text.data(), text.size());
}

Error ended_server(const PythonData& data) {
  return {
      ErrorKind::kEnvironment, "the Python process that holds the data set of " + data.function + " ended",
      "its last lines are above; '" + data.python + "' runs it, or the Python interpreter that LOCKSTEP_PYTHON names"};
}

}  // namespace

PythonWorker::PythonWorker(FileDescriptor socket, void* memory, std::size_t bytes)
    : socket_(std::move(socket)), memory_(static_cast<std::byte*>(memory)), bytes_(bytes) {}

PythonWorker::PythonWorker(PythonWorker&& other) noexcept
    : socket_(std::move(other.socket_)), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

// shutdown() ends the worker even if a process that was forked from this one has a copy of the socket.
PythonWorker::~PythonWorker() {
  if (memory_ == nullptr) return;
  ::shutdown(socket_.get(), SHUT_RDWR);
  ::munmap(memory_, bytes_);
}

bool PythonWorker::send(const void* bytes, std::size_t size) const { return send_all(socket_, bytes, size); }

Json PythonWorker::next_message() const {
  const auto told = received_text(socket_);
  if (!told) {
    throw Error(
        ErrorKind::kEnvironment, "the Python process that read it ended",
        "often it was killed because the job has too little memory, or it crashed in a compiled package; each of "
        "data.workers is a process");
  }
  if (told->empty()) return {};
  auto message = Json::parse(*told);
  if (message.contains("code")) throw_told(message);
  return message;
}

PythonServer::PythonServer(const PythonData& data) : data_(data) {
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

PythonServer::~PythonServer() {
  ::shutdown(control_.get(), SHUT_RDWR);
  ::waitpid(process_, nullptr, 0);
}

std::shared_ptr<PythonServer> PythonServer::shared(const PythonData& data) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<PythonServer>> servers;
  const std::lock_guard lock(mutex);
  auto& known = servers[data.python + "\n" + data.source + "\n" + data.function + "\n" + data.collate + "\n" +
                        data.arguments + "\n" + std::to_string(data.workers)];
  auto server = known.lock();
  if (!server) known = server = std::make_shared<PythonServer>(data);
  return server;
}

Json PythonServer::open(const std::string& split, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  const Json asked = {{"split", split},
                      {"seed", seed},
                      {"source", data_.source},
                      {"function", data_.function},
                      {"collate_source", data_.collate_source},
                      {"collate", data_.collate},
                      {"samples", split == "train" ? data_.samples : data_.eval_samples},
                      {"rank", data_.rank},
                      {"world", data_.world},
                      {"arguments", Json::parse(data_.arguments)}};
  std::optional<std::string> told;
  if (send_text(control_, json_text(asked))) told = received_text(control_);
  if (!told) throw ended_server(data_);
  auto part = Json::parse(*told);
  if (part.contains("code")) throw_told(part);
  return part;
}

PythonWorker PythonServer::fork(const Json& wanted, std::size_t bytes) {
  auto [ours, theirs] = socket_pair();
  const FileDescriptor file(::memfd_create("lockstep-sample", MFD_CLOEXEC));
  const auto size = std::max<std::size_t>(bytes, 1);
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0)
    throw system_failure("make shared memory");
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) throw system_failure("map shared memory");
  PythonWorker worker(std::move(ours), memory, size);
  const std::lock_guard lock(mutex_);
  if (!send_with_files(control_, json_text(wanted), {theirs.get(), file.get()})) throw ended_server(data_);
  return worker;
}

}  // namespace lockstep
