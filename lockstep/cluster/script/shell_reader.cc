// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/script/shell_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "lockstep/cluster/script/shell_value.h"

// Parsing has two stages. `Lexer` yields words, operators and line ends. It knows quotes, substitutions and here
// documents. `Parser` groups them into simple commands, and keeps a stack of the open blocks. A keyword counts only at
// the start of a command. Source: POSIX.1-2017, Shell Command Language, 2.3 (tokens), 2.7.4 (here documents), 2.10.

namespace lockstep {
namespace {

enum class TokenKind { kWord, kOperator, kLineEnd, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text{};
  int line = 0;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_meta(char c) { return is_blank(c) || std::string_view("\n;&|<>()").find(c) != std::string_view::npos; }

class Lexer {
 public:
  Lexer(std::string_view text, ShellText& into) : text_(text), into_(into) {}

  Token next() {
    while (true) {
      skip_blanks();
      Token token{.line = line_};
      if (at_ >= text_.size()) return token;
      const char c = text_[at_];
      if (c == '\n') {
        step();
        read_here_documents();
        return {TokenKind::kLineEnd, "\n", token.line};
      }
      if (c == '&' && peek(1) == '>') step();
      if (text_[at_] == '<' || text_[at_] == '>') {
        if (peek(1) != '(') {
          skip_redirection();
          continue;
        }
      } else if (is_meta(c)) {
        return {TokenKind::kOperator, read_operator(), token.line};
      }
      token.kind = TokenKind::kWord;
      token.text = read_word();
      const bool is_number = std::ranges::all_of(token.text, [](unsigned char d) { return std::isdigit(d) != 0; });
      // In "2>file" the number belongs to the redirection, and is no word of the command.
      if (is_number && at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>')) continue;
      return token;
    }
  }

  /// Skips text up to and including `end`. The text between is not a command.
  void skip_past(std::string_view end) {
    while (at_ < text_.size() && text_.substr(at_, end.size()) != end) step();
    for (std::size_t i = 0; i < end.size() && at_ < text_.size(); ++i) step();
  }

 private:
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void step() {
    if (text_[at_++] == '\n') ++line_;
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        step();
      } else if (is_continuation()) {
        step();
        step();
      } else if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else {
        return;
      }
    }
  }

  bool is_continuation() const { return peek(0) == '\\' && peek(1) == '\n'; }

  std::string read_operator() {
    std::string text(1, text_[at_]);
    step();
    const char c = text.front();
    if ((c == '&' || c == '|' || c == ';') && (peek(0) == c || (c == '|' && peek(0) == '&'))) {
      text += text_[at_];
      step();
    }
    return text;
  }

  void skip_redirection() {
    std::string sign;
    while (at_ < text_.size() && std::string_view("<>&|").find(text_[at_]) != std::string_view::npos &&
           sign.size() < 3) {
      sign += text_[at_];
      step();
    }
    if (sign == "<<" && peek(0) == '-') {
      sign += '-';
      step();
    }
    while (at_ < text_.size() && is_blank(text_[at_])) step();
    if (at_ >= text_.size() || is_meta(text_[at_])) return;
    const std::string target = read_word();
    if (sign == "<<" || sign == "<<-") pending_.push_back({shell_value(target, {}).text, sign == "<<-"});
  }

  void read_here_documents() {
    for (const auto& [end, strips_tabs] : pending_) {
      std::string body;
      while (at_ < text_.size()) {
        const auto begin = at_;
        while (at_ < text_.size() && text_[at_] != '\n') step();
        std::string_view line = text_.substr(begin, at_ - begin);
        if (at_ < text_.size()) step();
        if (strips_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line == end) break;
        body += std::string(line) + "\n";
      }
      into_.here_documents.push_back(body);
    }
    pending_.clear();
  }

  void take(std::string& word) {
    word += text_[at_];
    step();
  }

  std::string read_word() {
    std::string word;
    while (at_ < text_.size()) {
      const bool is_substitution = (text_[at_] == '<' || text_[at_] == '>') && peek(1) == '(' && word.empty();
      if (text_[at_] == '(' && word.ends_with('=')) {
        take_group(word, '(', ')');
      } else if (is_substitution) {
        take(word);
        take_group(word, '(', ')');
      } else if (is_meta(text_[at_])) {
        break;
      } else if (is_continuation()) {
        step();
        step();
      } else {
        take_piece(word);
      }
    }
    return word;
  }

  /// Takes one character, or a whole quoted or substituted part.
  void take_piece(std::string& word) {
    const char c = text_[at_];
    if (c == '\\') {
      take(word);
      if (at_ < text_.size()) take(word);
    } else if (c == '\'' || c == '`') {
      take_until(word, c);
    } else if (c == '"') {
      take_double_quoted(word);
    } else if (c == '$' && (peek(1) == '(' || peek(1) == '{')) {
      take(word);
      take_group(word, text_[at_], text_[at_] == '(' ? ')' : '}');
    } else {
      take(word);
    }
  }

  void take_until(std::string& word, char end) {
    const int opened = line_;
    take(word);
    while (at_ < text_.size() && text_[at_] != end) {
      if (end == '`' && text_[at_] == '\\' && at_ + 1 < text_.size()) take(word);
      take(word);
    }
    close(word, opened);
  }

  void take_double_quoted(std::string& word) {
    const int opened = line_;
    take(word);
    while (at_ < text_.size() && text_[at_] != '"') {
      if (is_continuation()) {
        step();
        step();
      } else if (text_[at_] == '\'') {
        take(word);
      } else {
        take_piece(word);
      }
    }
    close(word, opened);
  }

  void take_group(std::string& word, char open, char end) {
    const int opened = line_;
    if (++depth_ > kDeepest) {
      at_ = text_.size();
      return close(word, opened);
    }
    take(word);
    while (at_ < text_.size() && text_[at_] != end) {
      if (text_[at_] == open) {
        take_group(word, open, end);
      } else {
        take_piece(word);
      }
    }
    --depth_;
    close(word, opened);
  }

  void close(std::string& word, int opened) {
    if (at_ < text_.size()) return take(word);
    if (into_.broken_line == 0) into_.broken_line = opened;
  }

  struct HereDocument {
    std::string end{};
    bool strips_tabs = false;
  };

  static constexpr int kDeepest = 100;

  std::string_view text_;
  ShellText& into_;
  std::size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
  std::vector<HereDocument> pending_;
};

enum class Open { kIf, kCase, kLoop, kFunction, kBrace, kSubshell };

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text, into_) {}

  ShellText parse() {
    for (auto token = lexer_.next(); token.kind != TokenKind::kEnd; token = lexer_.next()) {
      if (token.kind == TokenKind::kWord) {
        take_word(token);
      } else if (token.kind == TokenKind::kLineEnd) {
        end_command("\n");
      } else {
        take_operator(token);
      }
    }
    end_command("\n");
    return std::move(into_);
  }

 private:
  bool at_start() const { return command_.words.empty() && command_.assignments.empty(); }

  void take_word(const Token& token) {
    if (at_start() && take_keyword(token.text)) return;
    if (at_start()) command_.line = token.line;
    if (command_.words.empty() && !assigned_name(token.text).empty()) {
      command_.assignments.push_back(token.text);
      return;
    }
    command_.words.push_back(token.text);
    if (command_.words.size() == 1 && token.text == "[[") lexer_.skip_past("]]");
  }

  bool take_keyword(const std::string& word) {
    constexpr auto kPlain = std::to_array<std::string_view>({"then", "else", "elif", "do", "!", "time", "in"});
    if (std::ranges::find(kPlain, word) != kPlain.end()) return true;
    if (word == "if") return push(Open::kIf);
    if (word == "while" || word == "until") return push(Open::kLoop);
    if (word == "for" || word == "select") {
      push(Open::kLoop);
      return false;
    }
    if (word == "case") {
      push(Open::kCase);
      return false;
    }
    if (word == "{") return push(Open::kBrace);
    if (word == "}") return pop();
    if (word == "fi" || word == "done" || word == "esac") return pop();
    if (word == "function") {
      is_function_next_ = true;
      return true;
    }
    return false;
  }

  bool push(Open open) {
    if (open == Open::kBrace && is_function_next_) open = Open::kFunction;
    is_function_next_ = false;
    open_.push_back(open);
    return true;
  }

  bool pop() {
    if (!open_.empty()) open_.pop_back();
    return true;
  }

  void take_operator(const Token& token) {
    if (token.text == "(") {
      if (command_.words.size() == 1) {
        is_function_next_ = true;
        command_ = {};
      } else if (at_start()) {
        push(Open::kSubshell);
      }
      return;
    }
    if (token.text == ")") {
      if (is_function_next_) return;
      const bool is_pattern = !open_.empty() && open_.back() == Open::kCase;
      if (is_pattern) {
        command_ = {};
        return;
      }
      end_command(")");
      pop();
      return;
    }
    end_command(token.text);
  }

  void end_command(const std::string& sign) {
    if (is_function_next_ && !command_.words.empty()) command_ = {};  // The name of `function NAME`.
    const bool was_piped = is_piped_;
    is_piped_ = sign == "|" || sign == "|&";
    if (at_start()) return;
    command_.is_background = sign == "&";
    command_.is_subshell = was_piped || is_piped_ || std::ranges::find(open_, Open::kSubshell) != open_.end();
    command_.block = block();
    into_.commands.push_back(std::move(command_));
    command_ = {};
  }

  ShellBlock block() const {
    const auto has = [&](Open open) { return std::ranges::find(open_, open) != open_.end(); };
    if (has(Open::kFunction)) return ShellBlock::kFunction;
    if (has(Open::kLoop)) return ShellBlock::kLoop;
    return has(Open::kIf) || has(Open::kCase) ? ShellBlock::kCondition : ShellBlock::kNone;
  }

  ShellText into_;
  Lexer lexer_;
  ShellCommand command_;
  std::vector<Open> open_;
  bool is_function_next_ = false;
  bool is_piped_ = false;
};

}  // namespace

ShellText read_shell(std::string_view text) { return Parser(text).parse(); }

}  // namespace lockstep
