// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/inspect/nccl_status.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/launch/socket.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr const char* kStatus =
    "NCCL version 2.27.7 compiled with CUDA 12.9\n"
    "CUDA runtime version 12090, driver version 12090\n\n"
    "Job summary\n===========\n\n"
    "  Nodes  Processes         GPUs  Processes     GPUs\n"
    "(total)   per node  per process    (total)  (total)\n"
    "      1          4            1          4        4\n\n"
    "Communicators... (0.00s)\n=============\n\n"
    "Errors\n======\n\n"
    "INCOMPLETE\n  Missing communicator data from 1 job process\n\n"
    "Warnings\n========\n\n"
    "#0-0 (1a2b) MISMATCH\n  Communicator ranks have different collective operation counts\n";

/// Serves one connection as NCCL does.
class FakeRas {
 public:
  explicit FakeRas(std::function<void(int)> serve)
      : listener_(listen_on(0)), thread_([this, serve = std::move(serve)] {
          const auto peer = accept_connection(listener_, Clock::now() + std::chrono::seconds(30));
          if (peer) serve(peer.get());
        }) {}

  RasAddress address() const { return {.host = "127.0.0.1", .port = port_of(listener_)}; }

 private:
  FileDescriptor listener_;
  std::jthread thread_;
};

std::string line_from(int fd) {
  std::string line;
  char each = 0;
  while (line.find('\n') == std::string::npos) {
    const auto got = ::recv(fd, &each, 1, MSG_WAITALL);
    if (got == 1) line += each;
    if (got == 0) return line;
    if (got < 0) std::this_thread::yield();
  }
  return line;
}

void say(int fd, std::string_view text) { ::send(fd, text.data(), text.size(), MSG_NOSIGNAL); }

TEST(NcclStatus, IsWhatTheJobsNcclSays) {
  const FakeRas server([](int fd) {
    EXPECT_TRUE(line_from(fd).starts_with("CLIENT PROTOCOL "));
    say(fd, "SERVER PROTOCOL 2\n");
    EXPECT_EQ(line_from(fd), "STATUS\n");
    say(fd, std::string_view(kStatus).substr(0, 100));
    say(fd, std::string_view(kStatus).substr(100));
  });
  EXPECT_EQ(read_nccl_status(server.address(), milliseconds(20'000)), kStatus);
}

TEST(NcclStatus, OfAnotherServerIsNothing) {
  const FakeRas server([](int fd) { say(fd, "HTTP/1.1 400 Bad Request\r\n\r\n"); });
  EXPECT_EQ(read_nccl_status(server.address(), milliseconds(20'000)), std::nullopt);
}

TEST(NcclStatus, OfAServerThatIsSilentIsGivenUp) {
  std::atomic<bool> is_over = false;
  const FakeRas server([&](int) {
    while (!is_over) std::this_thread::yield();
  });
  EXPECT_EQ(read_nccl_status(server.address(), milliseconds(50)), std::nullopt);
  is_over = true;
}

TEST(NcclStatus, OfNobodyIsNothing) {
  const auto port = port_of(bind_socket("127.0.0.1"));
  EXPECT_EQ(read_nccl_status({.host = "127.0.0.1", .port = port}, milliseconds(20'000)), std::nullopt);
}

TEST(NcclComplaints, AreItsErrorsAndWarnings) {
  EXPECT_EQ(nccl_complaints(kStatus),
            "INCOMPLETE\nMissing communicator data from 1 job process\n#0-0 (1a2b) MISMATCH\n"
            "Communicator ranks have different collective operation counts");
  EXPECT_EQ(nccl_complaints("Job summary\n===\n\nErrors\n======\n\nWarnings\n========\n\n"), "");
}

TEST(RasAddresses, AreAsTheVariablesSay) {
  EXPECT_EQ(ras_address({})->port, 28028);
  const auto given = ras_address({{"NCCL_RAS_ADDR", "127.0.0.1:4711"}});
  ASSERT_TRUE(given);
  EXPECT_EQ(given->host, "127.0.0.1");
  EXPECT_EQ(given->port, 4711);
  EXPECT_FALSE(ras_address({{"NCCL_RAS_ENABLE", "0"}}));
  EXPECT_FALSE(ras_address({{"NCCL_RAS_ADDR", "nonsense"}}));
}

}  // namespace
}  // namespace lockstep
