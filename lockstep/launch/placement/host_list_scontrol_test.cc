// SPDX-License-Identifier: Apache-2.0
// Compares expand_host_list() with `scontrol show hostnames` on generated host lists.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/placement/host_list.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

class Generator {
 public:
  std::string expression() {
    std::string text = word();
    for (int more = below(3); more > 0; --more) text += "," + word();
    return text;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::string word() {
    static const std::vector<std::string> kNames = {"n",   "tux",   "node-", "gpu0",  "a",
                                                    "x1b", "rack.", "9",     "nid00", "c_"};
    std::string text = kNames[static_cast<std::size_t>(below(static_cast<int>(kNames.size())))];
    const int brackets = below(4);
    if (brackets == 0) return text + number(below(200), below(6));
    for (int b = 0; b < brackets; ++b) {
      if (b > 0) text += kNames[static_cast<std::size_t>(below(5))].substr(0, static_cast<std::size_t>(below(3)));
      text += bracket(brackets);
    }
    return text;
  }

  std::string bracket(int brackets) {
    std::string text = "[";
    for (int ranges = 1 + below(3); ranges > 0; --ranges) {
      const int low = below(3) == 0 ? below(20'000) : below(120);
      const int width = below(3) == 0 ? below(8) : 0;
      text += number(low, width);
      if (below(2) == 0) {
        const int high = low + below(brackets == 1 ? 40 : 4);
        text += "-" + number(high, below(2) == 0 ? width : 0);
      }
      text += ranges > 1 ? "," : "]";
    }
    return text;
  }

  static std::string number(int value, int width) {
    std::string digits = std::to_string(value);
    const auto wanted = static_cast<std::size_t>(width);
    return digits.size() < wanted ? std::string(wanted - digits.size(), '0') + digits : digits;
  }

  std::mt19937 random_{7};
};

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  std::string text;
  char buffer[1 << 14];
  std::size_t got = 0;
  while (pipe && (got = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0) text.append(buffer, got);
  return text;
}

/// Returns scontrol's expansion of each expression. One call serves many, with a host named "|" between them.
std::vector<std::vector<std::string>> by_scontrol(const std::vector<std::string>& expressions,
                                                  const std::string& conf) {
  const std::string text =
      output_of("SLURM_CONF='" + conf + "' scontrol show hostnames '" + joined(expressions, ",|,") + "' 2>&1");
  std::vector<std::vector<std::string>> all(1);
  for (const auto& line : split(trimmed(text), '\n')) {
    if (line == "|") {
      all.emplace_back();
    } else {
      all.back().push_back(line);
    }
  }
  return all;
}

TEST(HostListAgainstScontrol, GeneratedExpressionsExpandAlike) {
  if (std::system("command -v scontrol > /dev/null") != 0) GTEST_SKIP() << "scontrol is not installed";
  const int count = std::getenv("LOCKSTEP_SOAK") != nullptr ? 10'000 : 300;
  // scontrol needs a configuration file to start, although it uses nothing of the file to expand a list.
  const testing::TemporaryFolder folder;
  const auto conf = folder.path() / "slurm.conf";
  write_whole(conf, "ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n", false);
  Generator generator;
  int done = 0;
  while (done < count) {
    std::vector<std::string> batch;
    for (std::size_t bytes = 0; done < count && bytes < 50'000; ++done) {
      batch.push_back(generator.expression());
      bytes += batch.back().size();
    }
    const auto wanted = by_scontrol(batch, conf.string());
    ASSERT_EQ(wanted.size(), batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) ASSERT_EQ(expanded_hosts(batch[i]), wanted[i]) << batch[i];
  }
}

}  // namespace
}  // namespace lockstep
