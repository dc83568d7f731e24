// SPDX-License-Identifier: Apache-2.0
// One thread, one epoll. A connection is unproven until its answer to the challenge is right. Unproven connections are
// kept in order of arrival, so the first is the oldest.
// A proven connection is read only while no reply to it is due, since a client sends one request at a time. A client
// that does not read its replies is not read either. So memory is bounded by one request and one reply for each rank's
// connection.
// The listener is not watched while there is no room for another unproven connection. New ones then wait in the
// system's queue.
#include "lockstep/store/server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/store/generations.h"
#include "lockstep/store/silent_peer.h"
#include "lockstep/store/wire.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr int kQueue = 4096;
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kStop = 1;
constexpr std::uint64_t kFirstClient = 2;
constexpr milliseconds kWithoutDescriptors{50};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kEnvironment, what + " failed: " + std::strerror(errno),
              "check the limits on processes and open files (ulimit -u, ulimit -n)");
}

}  // namespace

class StoreServer::Loop {
 public:
  Loop(FileDescriptor bound, StoreIdentity identity, const StrangerLimits& limits);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  StoreCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  using Id = Generations::ClientId;
  struct Connection {
    FileDescriptor socket;
    std::optional<ServerHandshake> handshake;  ///< Until it is proven.
    std::list<Id>::iterator place;             ///< Among the unproven.
    Clock::time_point since;
    std::string answer;  ///< The result of the proof.
    FrameReader frames;
    std::string unsent;
    bool is_waiting = false;
    std::uint32_t events = 0;
  };

  void run(const std::stop_token& stop);
  void watch(int how, int fd, std::uint64_t id, std::uint32_t events);
  int wait_ms();
  void drop_late();
  bool has_room();
  void accept_some();
  void take(Id id, FileDescriptor socket);
  bool serve(Id id, std::uint32_t events);
  bool receive(Id id, Connection& connection);
  bool prove(Connection& connection);
  bool execute(Id id, Connection& connection);
  bool flush(Id id, Connection& connection);
  void send_answers();
  void drop(Id id, bool is_refused);
  void publish();

  FileDescriptor listener_;
  FileDescriptor epoll_;
  FileDescriptor stop_;
  const StoreIdentity identity_;
  const StrangerLimits limits_;
  bool is_listening_ = false;
  std::optional<Clock::time_point> paused_until_;  // No descriptor was free.
  Id next_ = kFirstClient;
  std::map<Id, Connection> connections_;
  std::list<Id> unproven_;
  Generations store_;
  StoreCounts own_;  // The thread's; published after each round.
  mutable std::mutex mutex_;
  StoreCounts counts_;
  std::jthread thread_;
};

StoreServer::Loop::Loop(FileDescriptor bound, StoreIdentity identity, const StrangerLimits& limits)
    : listener_(std::move(bound)), identity_(std::move(identity)), limits_(limits) {
  if (::listen(listener_.get(), kQueue) != 0) fail("listen");
  const int flags = ::fcntl(listener_.get(), F_GETFL);
  ::fcntl(listener_.get(), F_SETFL, flags | O_NONBLOCK);
  ::fcntl(listener_.get(), F_SETFD, FD_CLOEXEC);
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) fail("epoll_create1");
  stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_) fail("eventfd");
  watch(EPOLL_CTL_ADD, stop_.get(), kStop, EPOLLIN);
  watch(EPOLL_CTL_ADD, listener_.get(), kListener, 0);
  // Signals must reach other threads of the process. A new thread inherits the signal mask of the thread that starts
  // it, so all signals are blocked for a moment.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StoreServer::Loop::~Loop() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
}

void StoreServer::Loop::watch(int how, int fd, std::uint64_t id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  ::epoll_ctl(epoll_.get(), how, fd, &event);
}

void StoreServer::Loop::run(const std::stop_token& stop) {
  std::array<epoll_event, 256> events{};
  while (!stop.stop_requested()) {
    if (const bool wants = has_room(); wants != is_listening_) {
      watch(EPOLL_CTL_MOD, listener_.get(), kListener, wants ? EPOLLIN : 0U);
      is_listening_ = wants;
    }
    publish();
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms());
    for (int i = 0; i < count; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      const Id id = event.data.u64;
      if (id == kListener) {
        accept_some();
      } else if (id != kStop && connections_.contains(id) && !serve(id, event.events)) {
        drop(id, connections_.at(id).handshake.has_value());
      }
    }
    drop_late();
  }
}

// -1 if no connection has a deadline.
int StoreServer::Loop::wait_ms() {
  std::optional<Clock::time_point> next = paused_until_;
  if (!unproven_.empty()) {
    const auto since = connections_.at(unproven_.front()).since;
    const auto at = since + (is_listening_ ? limits_.patience : limits_.makes_room_after);
    if (!next || at < *next) next = at;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

void StoreServer::Loop::drop_late() {
  const auto now = Clock::now();
  while (!unproven_.empty() && now - connections_.at(unproven_.front()).since >= limits_.patience) {
    drop(unproven_.front(), true);
  }
}

// True if another unproven connection can be accepted, because there is room, or because the oldest one has had enough
// time.
bool StoreServer::Loop::has_room() {
  if (paused_until_ && Clock::now() < *paused_until_) return false;
  paused_until_.reset();
  if (unproven_.size() < limits_.most_unproven) return true;
  return Clock::now() - connections_.at(unproven_.front()).since >= limits_.makes_room_after;
}

void StoreServer::Loop::accept_some() {
  while (has_room()) {
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // If the process has no free descriptor, accept() fails at once, again and again. This pause keeps the thread
      // from using a whole core.
      if (errno != EAGAIN) paused_until_ = Clock::now() + kWithoutDescriptors;
      return;
    }
    ++own_.accepted;
    if (unproven_.size() >= limits_.most_unproven) drop(unproven_.front(), true);
    take(next_++, std::move(socket));
  }
}

void StoreServer::Loop::take(Id id, FileDescriptor socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  find_silent_peer(socket.get());
  Connection& connection = connections_[id];
  connection.socket = std::move(socket);
  connection.handshake.emplace(identity_);
  connection.since = Clock::now();
  connection.place = unproven_.insert(unproven_.end(), id);
  own_.most_connections = std::max(own_.most_connections, connections_.size());
  connection.unsent = connection.handshake->hello();
  watch(EPOLL_CTL_ADD, connection.socket.get(), id, 0);
  if (!flush(id, connection)) drop(id, true);
}

bool StoreServer::Loop::serve(Id id, std::uint32_t events) {
  Connection& connection = connections_.at(id);
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return false;
  if (!connection.unsent.empty() && !flush(id, connection)) return false;
  if (connection.is_waiting) return (events & EPOLLRDHUP) == 0;
  return receive(id, connection) && flush(id, connection);
}

bool StoreServer::Loop::receive(Id id, Connection& connection) {
  std::array<char, 65536> buffer;  // Not cleared: it is large.
  while (connection.unsent.empty() && !connection.is_waiting) {
    const auto most = connection.handshake ? kAnswerBytes - connection.answer.size() : buffer.size();
    const auto got = ::recv(connection.socket.get(), buffer.data(), most, 0);
    if (got == 0) return false;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    if (connection.handshake) {
      connection.answer += bytes;
      if (connection.answer.size() == kAnswerBytes && !prove(connection)) return false;
    } else {
      connection.frames.push(bytes);
      if (!execute(id, connection)) return false;
    }
    if (!flush(id, connection)) return false;
  }
  return true;
}

bool StoreServer::Loop::prove(Connection& connection) {
  if (!connection.handshake->accepts(connection.answer)) return false;
  connection.unsent += connection.handshake->proof(connection.answer);
  connection.handshake.reset();
  connection.answer.clear();
  unproven_.erase(connection.place);
  ++own_.proven;
  return true;
}

// While a request waits for its reply, further requests of the same client stay in its buffer.
bool StoreServer::Loop::execute(Id id, Connection& connection) {
  while (!connection.is_waiting) {
    const auto message = connection.frames.next();
    if (!message) return !connection.frames.is_broken();
    const auto request = decode_request(*message);
    if (!request) return false;
    ++own_.requests;
    const auto reply = store_.apply(id, *request);
    connection.is_waiting = !reply;
    if (reply) connection.unsent += encode(*reply);
    send_answers();
  }
  return true;
}

// Sends as much of the reply as the socket accepts. Then registers the connection for its next event.
bool StoreServer::Loop::flush(Id id, Connection& connection) {
  std::size_t done = 0;
  while (done < connection.unsent.size()) {
    const auto sent =
        ::send(connection.socket.get(), connection.unsent.data() + done, connection.unsent.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) break;
    done += static_cast<std::size_t>(sent);
  }
  own_.bytes_sent += static_cast<std::int64_t>(done);
  connection.unsent.erase(0, done);
  const std::uint32_t wanted = !connection.unsent.empty() ? EPOLLOUT : connection.is_waiting ? EPOLLRDHUP : EPOLLIN;
  if (wanted != connection.events) {
    watch(EPOLL_CTL_MOD, connection.socket.get(), id, wanted);
    connection.events = wanted;
  }
  return true;
}

void StoreServer::Loop::send_answers() {
  for (const auto& [id, reply] : store_.take_answers()) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    found->second.is_waiting = false;
    found->second.unsent += encode(reply);
    // If sending fails, the next epoll_wait() reports the connection as closed.
    flush(id, found->second);
  }
}

void StoreServer::Loop::drop(Id id, bool is_refused) {
  const auto found = connections_.find(id);
  if (found->second.handshake) unproven_.erase(found->second.place);
  own_.refused += is_refused ? 1 : 0;
  store_.forget(id);
  connections_.erase(found);
  send_answers();
}

void StoreServer::Loop::publish() {
  own_.connections = connections_.size();
  const std::lock_guard lock(mutex_);
  counts_ = own_;
}

StoreServer::StoreServer(FileDescriptor bound, StoreIdentity identity, const StrangerLimits& limits)
    : loop_(std::make_unique<Loop>(std::move(bound), std::move(identity), limits)) {}

StoreServer::~StoreServer() = default;

StoreCounts StoreServer::counts() const { return loop_->counts(); }

}  // namespace lockstep
