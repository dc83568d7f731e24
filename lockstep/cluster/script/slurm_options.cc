// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/slurm_options.h"

#include <algorithm>
#include <array>

#include "lockstep/base/map_each.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

enum class Takes { kNothing, kMaybe, kValue };

struct Known {
  std::string_view name;
  char letter = 0;
  Takes takes = Takes::kValue;
};

constexpr auto kKnown = std::to_array<Known>({
    {"account", 'A'},
    {"acctg-freq"},
    {"array", 'a'},
    {"batch"},
    {"bb"},
    {"bbf"},
    {"bcast", 0, Takes::kMaybe},
    {"bcast-exclude"},
    {"begin", 'b'},
    {"chdir", 'D'},
    {"cluster-constraint"},
    {"clusters", 'M'},
    {"comment"},
    {"compress", 0, Takes::kMaybe},
    {"constraint", 'C'},
    {"container"},
    {"container-id"},
    {"contiguous", 0, Takes::kNothing},
    {"core-spec", 'S'},
    {"cores-per-socket"},
    {"cpu-bind"},
    {"cpu-freq"},
    {"cpus-per-gpu"},
    {"cpus-per-task", 'c'},
    {"deadline"},
    {"delay-boot"},
    {"dependency", 'd'},
    {"disable-status", 'X', Takes::kNothing},
    {"distribution", 'm'},
    {"epilog"},
    {"error", 'e'},
    {"exact", 0, Takes::kNothing},
    {"exclude", 'x'},
    {"exclusive", 0, Takes::kMaybe},
    {"export"},
    {"export-file"},
    {"extra"},
    {"extra-node-info", 'B'},
    {"get-user-env", 0, Takes::kMaybe},
    {"gid"},
    {"gpu-bind"},
    {"gpu-freq"},
    {"gpus", 'G'},
    {"gpus-per-node"},
    {"gpus-per-socket"},
    {"gpus-per-task"},
    {"gres"},
    {"gres-flags"},
    {"het-group"},
    {"help", 'h', Takes::kNothing},
    {"hint"},
    {"hold", 'H', Takes::kNothing},
    {"ignore-pbs", 0, Takes::kNothing},
    {"immediate", 'I', Takes::kMaybe},
    {"input", 'i'},
    {"interactive", 0, Takes::kNothing},
    {"job-name", 'J'},
    {"jobid"},
    {"kill-on-bad-exit", 'K', Takes::kMaybe},
    {"kill-on-invalid-dep"},
    {"label", 'l', Takes::kNothing},
    {"licenses", 'L'},
    {"mail-type"},
    {"mail-user"},
    {"mcs-label"},
    {"mem"},
    {"mem-bind"},
    {"mem-per-cpu"},
    {"mem-per-gpu"},
    {"mincpus"},
    {"mpi"},
    {"msg-timeout"},
    {"multi-prog", 0, Takes::kNothing},
    {"network"},
    {"nice", 0, Takes::kMaybe},
    {"no-kill", 'k', Takes::kMaybe},
    {"no-requeue", 0, Takes::kNothing},
    {"nodefile", 'F'},
    {"nodelist", 'w'},
    {"nodes", 'N'},
    {"ntasks", 'n'},
    {"ntasks-per-core"},
    {"ntasks-per-gpu"},
    {"ntasks-per-node"},
    {"ntasks-per-socket"},
    {"oom-kill-step", 0, Takes::kMaybe},
    {"open-mode"},
    {"output", 'o'},
    {"overcommit", 'O', Takes::kNothing},
    {"overlap", 0, Takes::kNothing},
    {"oversubscribe", 's', Takes::kNothing},
    {"parsable", 0, Takes::kMaybe},
    {"partition", 'p'},
    {"power"},
    {"prefer"},
    {"preserve-env", 'E', Takes::kNothing},
    {"priority"},
    {"profile"},
    {"prolog"},
    {"propagate", 0, Takes::kMaybe},
    {"pty", 0, Takes::kMaybe},
    {"qos", 'q'},
    {"quiet", 'Q', Takes::kNothing},
    {"reboot", 0, Takes::kNothing},
    {"relative", 'r'},
    {"requeue", 0, Takes::kMaybe},
    {"reservation"},
    {"resv-ports", 0, Takes::kMaybe},
    {"segment"},
    {"send-libs", 0, Takes::kMaybe},
    {"share", 0, Takes::kNothing},
    {"signal"},
    {"slurmd-debug"},
    {"sockets-per-node"},
    {"spread-job", 0, Takes::kNothing},
    {"stepmgr", 0, Takes::kNothing},
    {"switches"},
    {"task-epilog"},
    {"task-prolog"},
    {"tasks-per-node"},
    {"test-only", 0, Takes::kNothing},
    {"thread-spec"},
    {"threads", 'T'},
    {"threads-per-core"},
    {"time", 't'},
    {"time-min"},
    {"tmp"},
    {"tree-width"},
    {"tres-bind"},
    {"tres-per-task"},
    {"uid"},
    {"unbuffered", 'u', Takes::kNothing},
    {"usage", 0, Takes::kNothing},
    {"use-min-nodes", 0, Takes::kNothing},
    {"verbose", 'v', Takes::kNothing},
    {"version", 'V', Takes::kNothing},
    {"wait", 'W', Takes::kMaybe},
    {"wait-all-nodes"},
    {"wait-for-switch"},
    {"wckey"},
    {"whole", 0, Takes::kNothing},
    {"wrap"},
    {"x11", 0, Takes::kMaybe},
    {"no-allocate", 'Z', Takes::kNothing},
});

const Known* known_letter(char letter) {
  const auto found = std::ranges::find(kKnown, letter, &Known::letter);
  return found == kKnown.end() ? nullptr : &*found;
}

/// Returns the option with this name, or the only option whose name begins with it.
const Known* known_name(std::string_view name) {
  const Known* only = nullptr;
  for (const auto& each : kKnown) {
    if (each.name == name) return &each;
    if (!each.name.starts_with(name)) continue;
    if (only != nullptr) return nullptr;
    only = &each;
  }
  return only;
}

std::string canonical(std::string_view name) {
  return std::string(name == "tasks-per-node" ? "ntasks-per-node" : name);
}

class OptionReader {
 public:
  OptionReader(std::span<const std::string> words, int line, SlurmOptions& into)
      : words_(words), line_(line), into_(into) {}

  std::size_t read() {
    while (at_ < words_.size()) {
      const auto& word = words_[at_];
      if (word.size() < 2 || word.front() != '-') break;
      ++at_;
      if (word == "--") break;
      word[1] == '-' ? read_long(word.substr(2)) : read_short(word);
    }
    return at_;
  }

 private:
  void add(const Known& option, std::string value) {
    into_.list.push_back({canonical(option.name), std::move(value), line_});
  }

  std::string next_word() { return at_ < words_.size() ? words_[at_++] : std::string(); }

  void read_long(const std::string& text) {
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    const Known* option = name.empty() ? nullptr : known_name(name);
    if (option == nullptr) return unknown("--" + name, name);
    if (equals != std::string::npos) return add(*option, text.substr(equals + 1));
    add(*option, option->takes == Takes::kValue ? next_word() : std::string());
  }

  void read_short(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const Known* option = known_letter(word[i]);
      if (option == nullptr) return unknown(word, {});
      if (option->takes == Takes::kNothing) {
        add(*option, {});
        continue;
      }
      auto value = word.substr(i + 1);
      if (value.empty() && option->takes == Takes::kValue) value = next_word();
      return add(*option, std::move(value));
    }
  }

  void unknown(const std::string& word, const std::string& name) {
    const auto names = map_each(kKnown, [](const auto& each) { return std::string(each.name); });
    into_.unknown.push_back({word, name.empty() ? "" : nearest_name(name, names).value_or(""), line_});
  }

  std::span<const std::string> words_;
  int line_;
  SlurmOptions& into_;
  std::size_t at_ = 0;
};

}  // namespace

const SlurmOption* SlurmOptions::find(std::string_view name) const {
  const auto found = std::find_if(list.rbegin(), list.rend(), [&](const auto& each) { return each.name == name; });
  return found == list.rend() ? nullptr : &*found;
}

std::string SlurmOptions::value(std::string_view name) const {
  const auto* option = find(name);
  return option == nullptr ? std::string() : option->value;
}

std::size_t read_slurm_options(std::span<const std::string> words, int line, SlurmOptions& into) {
  return OptionReader(words, line, into).read();
}

std::vector<std::string> sbatch_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      c == quote ? void(quote = 0) : word.push_back(c);
    } else if (c == '"' || c == '\'') {
      quote = c;
      is_word = true;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      if (is_word) words.push_back(std::move(word));
      word.clear();
      is_word = false;
    } else if (c == '#' && !is_word) {
      break;
    } else {
      if (c == '\\' && i + 1 < text.size()) ++i;
      word.push_back(text[i]);
      is_word = true;
    }
  }
  if (is_word) words.push_back(std::move(word));
  return words;
}

}  // namespace lockstep
