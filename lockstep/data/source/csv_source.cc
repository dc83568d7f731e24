// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/source/csv_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/source/sources.h"

namespace lockstep {
namespace {

struct Row {
  std::int64_t line = 0;
  std::vector<std::string> fields;
};

/// Splits a table's text by RFC 4180. A quoted field may hold separators, line breaks and doubled quotes.
class RowReader {
 public:
  RowReader(std::string_view text, const std::string& name) : rest_(text), name_(name) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    const std::string_view first = rest_.substr(0, rest_.find('\n'));
    for (const char candidate : {'\t', ';', ','}) {
      if (first.find(candidate) != std::string_view::npos) separator_ = candidate;
    }
  }

  /// Begins the next row. Returns false at the end of the text. Empty lines are skipped.
  bool next(Row& row) {
    while (!rest_.empty() && (rest_.front() == '\n' || rest_.starts_with("\r\n"))) {
      rest_.remove_prefix(rest_.front() == '\n' ? 1 : 2);
      ++line_;
    }
    if (rest_.empty()) return false;
    row.line = line_;
    row.fields.clear();
    while (field(row)) {
    }
    return true;
  }

 private:
  /// Reads the next field. Returns false after the row's last field.
  bool field(Row& row) {
    std::string text;
    const bool is_quoted = !rest_.empty() && rest_.front() == '"';
    if (is_quoted) take_quoted(text);
    const std::size_t end = std::min(rest_.find_first_of(std::string{separator_, '\n'}), rest_.size());
    text += rest_.substr(0, end);
    if (!is_quoted) text = trimmed(text);
    row.fields.push_back(std::move(text));
    const bool is_last = end == rest_.size() || rest_[end] == '\n';
    if (end < rest_.size() && rest_[end] == '\n') ++line_;
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return !is_last;
  }

  void take_quoted(std::string& text) {
    const std::int64_t first_line = line_;
    rest_.remove_prefix(1);
    while (true) {
      const std::size_t end = rest_.find('"');
      if (end == std::string_view::npos) {
        throw Error(ErrorKind::kData, name_ + ": line " + std::to_string(first_line) + ": a quote is not closed");
      }
      text += rest_.substr(0, end);
      line_ += std::ranges::count(rest_.substr(0, end), '\n');
      rest_.remove_prefix(end + 1);
      if (!rest_.starts_with('"')) break;
      text += '"';
      rest_.remove_prefix(1);
    }
    const std::size_t after = std::min(rest_.find_first_not_of(" \r"), rest_.size());
    rest_.remove_prefix(after);
  }

  std::string_view rest_;
  const std::string& name_;
  char separator_ = ',';
  std::int64_t line_ = 1;
};

/// A table's numbers, and its targets as text.
struct RawTable {
  std::vector<std::string> names;
  std::string label;
  std::vector<float> values;  ///< [rows, columns]
  std::vector<std::string> targets;
  std::vector<std::int64_t> lines;
};

[[noreturn]] void refuse(const std::string& name, const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::kData, name + ": " + fact, hint);
}

constexpr std::size_t kNoColumn = std::numeric_limits<std::size_t>::max();

void refuse_new_columns(const Row& head, const CsvColumns& training, const std::string& name) {
  for (const std::string& column : head.fields) {
    if (column == training.label || std::ranges::find(training.names, column) != training.names.end()) continue;
    refuse(name,
           "has the column '" + column + "', which training lacks; it has " + joined(training.names, ", ") +
               " and the target " + training.label,
           "take the column out of the file");
  }
}

/// Returns the place of each wanted column in the file. The columns of inputs come in their order, and the label last.
/// A missing label is kNoColumn.
std::vector<std::size_t> columns_of(const Row& head, const CsvOptions& options, const CsvColumns* training,
                                    RawTable& table, const std::string& name) {
  const auto place_of = [&](const std::string& column) {
    const auto found = std::ranges::find(head.fields, column);
    if (found != head.fields.end()) return static_cast<std::size_t>(found - head.fields.begin());
    const auto nearest = nearest_name(column, head.fields);
    refuse(name, "no column '" + column + "', the first line has " + joined(head.fields, ", "),
           nearest ? "is it '" + *nearest + "'?" : "the first line names the columns");
  };
  if (training != nullptr) {
    table.names = training->names;
    table.label = training->label;
    if (options.is_strict) refuse_new_columns(head, *training, name);
  } else {
    table.label = options.label.empty() ? head.fields.back() : options.label;
    const std::size_t label = place_of(table.label);
    for (std::size_t i = 0; i < head.fields.size(); ++i) {
      if (i != label) table.names.push_back(head.fields[i]);
    }
  }
  std::vector<std::size_t> places;
  for (const std::string& column : table.names) places.push_back(place_of(column));
  const bool may_lack = training != nullptr && !options.needs_label;
  const bool has_label = std::ranges::find(head.fields, table.label) != head.fields.end();
  places.push_back(may_lack && !has_label ? kNoColumn : place_of(table.label));
  if (places.size() < 2) refuse(name, "one column, want at least one of numbers and one of targets");
  return places;
}

RawTable raw_table(const std::filesystem::path& path, const CsvOptions& options, const CsvColumns* training) {
  const std::string text = text_of_file(path);
  const std::string name = path.string();
  RowReader reader(text, name);
  Row row;
  if (!reader.next(row)) refuse(name, "the file is empty, want a line that names the columns");
  RawTable table;
  const std::size_t width = row.fields.size();
  const std::vector<std::size_t> places = columns_of(row, options, training, table, name);
  while (reader.next(row)) {
    const std::string line = "line " + std::to_string(row.line) + ": ";
    if (row.fields.size() != width) {
      refuse(name, line + std::to_string(row.fields.size()) + " fields, want " + std::to_string(width));
    }
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      const std::string& field = row.fields[places[i]];
      const auto number = parsed_double(field);
      if (!number) {
        refuse(name, line + "column '" + table.names[i] + "' is '" + field + "', want a number",
               "leave the row out, or give the column numbers alone");
      }
      table.values.push_back(static_cast<float>(*number));
    }
    table.targets.push_back(places.back() == kNoColumn ? "" : row.fields[places.back()]);
    table.lines.push_back(row.line);
  }
  if (table.targets.empty()) refuse(name, "no rows below the first line, want at least one");
  return table;
}

/// Returns the classes sorted: numbers by size, then other texts by name.
std::vector<std::string> sorted_classes(const std::vector<std::string>& targets) {
  std::vector<std::string> classes = targets;
  const auto before = [](const std::string& a, const std::string& b) {
    const auto x = parsed_double(a);
    const auto y = parsed_double(b);
    if (x && y && *x != *y) return *x < *y;
    if (x.has_value() != y.has_value()) return x.has_value();
    return a < b;
  };
  std::ranges::sort(classes, before);
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

/// Returns the rows for training. Held-out rows must not influence training, not even its mean.
std::vector<std::size_t> training_rows(const RawTable& table, const CsvOptions& options) {
  std::vector<std::size_t> rows(table.targets.size());
  std::iota(rows.begin(), rows.end(), 0);
  if (options.held_out <= 0) return rows;
  const Split split = drawn_split(std::ssize(rows), options.held_out, options.seed);
  return {split.train.begin(), split.train.end()};
}

void set_scale(const RawTable& table, const std::vector<std::size_t>& rows, CsvColumns& columns) {
  const std::size_t width = table.names.size();
  const auto count = static_cast<double>(rows.size());
  for (std::size_t c = 0; c < width; ++c) {
    double mean = 0;
    for (const std::size_t r : rows) mean += table.values[r * width + c];
    mean /= count;
    double squares = 0;
    for (const std::size_t r : rows) squares += std::pow(table.values[r * width + c] - mean, 2);
    const double deviation = std::sqrt(squares / count);
    columns.mean.push_back(static_cast<float>(mean));
    // A column that is the same in every row has no standard deviation. Its numbers become 0.
    columns.std.push_back(deviation > 0 ? static_cast<float>(deviation) : 1.0F);
  }
}

class CsvSource : public SampleSource {
 public:
  CsvSource(const std::string& name, RawTable table, const CsvColumns& columns, const CsvOptions& options)
      : name_(name),
        values_(std::move(table.values)),
        lines_(std::move(table.lines)),
        classes_(options.is_regression ? 0 : static_cast<std::int64_t>(columns.classes.size())) {
    const std::size_t width = columns.names.size();
    for (std::size_t i = 0; i < values_.size() && !columns.mean.empty(); ++i) {
      values_[i] = (values_[i] - columns.mean[i % width]) / columns.std[i % width];
    }
    for (std::size_t r = 0; r < lines_.size(); ++r) {
      const bool is_unlabelled = !options.needs_label && table.targets[r].empty();
      if (options.is_regression) {
        numbers_.push_back(is_unlabelled ? 0 : number_of(table.targets[r], columns.label, lines_[r]));
      } else {
        labels_.push_back(is_unlabelled ? 0 : class_of(table.targets[r], columns, lines_[r]));
      }
    }
    fields_ = {{.name = "input", .dtype = "F32", .shape = {static_cast<std::int64_t>(width)}},
               {.name = "target", .dtype = options.is_regression ? "F32" : "I64", .shape = {}}};
    if (options.is_regression) fields_[1].shape = {1};
    row_bytes_ = fields_[0].bytes();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  bool is_in_memory() const override { return true; }
  std::optional<FixedSamples> fixed() const override { return itself(); }
  std::string name_of(std::int64_t id) const override {
    return name_ + " line " + std::to_string(lines_[static_cast<std::size_t>(id)]);
  }

  void read(const SampleKey& key, std::span<std::byte* const> to) const override {
    const auto row = static_cast<std::size_t>(key.id);
    std::memcpy(to[0], reinterpret_cast<const std::byte*>(values_.data()) + row * row_bytes_, row_bytes_);
    if (classes_ > 0) {
      std::memcpy(to[1], &labels_[row], sizeof labels_[row]);
    } else {
      std::memcpy(to[1], &numbers_[row], sizeof numbers_[row]);
    }
  }

 private:
  float number_of(const std::string& text, const std::string& label, std::int64_t line) const {
    const auto number = parsed_double(text);
    if (number) return static_cast<float>(*number);
    refuse(name_, "line " + std::to_string(line) + ": column '" + label + "' is '" + text + "', want a number",
           "for classes leave data.regression out");
  }

  std::int64_t class_of(const std::string& text, const CsvColumns& columns, std::int64_t line) const {
    const auto found = std::ranges::find(columns.classes, text);
    if (found != columns.classes.end()) return found - columns.classes.begin();
    refuse(name_,
           "line " + std::to_string(line) + ": column '" + columns.label + "' is '" + text +
               "', a class that training lacks; it has " + joined(columns.classes, ", "),
           "name the class as in training, or leave the row out");
  }

  std::string name_;
  std::vector<float> values_;
  std::vector<std::int64_t> lines_;
  std::vector<std::int64_t> labels_;
  std::vector<float> numbers_;
  std::int64_t classes_;
  std::vector<Field> fields_;
  std::size_t row_bytes_ = 0;
};

}  // namespace

CsvTable csv_table(const std::filesystem::path& path, const CsvOptions& options, const CsvColumns* training) {
  RawTable table = raw_table(path, options, training);
  CsvColumns columns;
  if (training != nullptr) {
    columns = *training;
  } else {
    columns.names = table.names;
    columns.label = table.label;
    if (!options.is_regression) columns.classes = sorted_classes(table.targets);
    if (options.is_standardised) set_scale(table, training_rows(table, options), columns);
  }
  CsvTable result{.source = nullptr, .columns = columns};
  result.source = std::make_unique<CsvSource>(path.string(), std::move(table), columns, options);
  return result;
}

}  // namespace lockstep
