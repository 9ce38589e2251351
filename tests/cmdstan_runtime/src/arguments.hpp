// The command line as a tree, in CmdStan's grammar: values (`name=value`), groups (`data file=x`)
// and choices (`method=sample ...`), where a word that a group does not know goes to its parent.
// The same tree prints itself, indented, as the comments that open every CSV file.
#ifndef STANCORESET_ARGUMENTS_HPP
#define STANCORESET_ARGUMENTS_HPP

#include <deque>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cli {

struct usage_error : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

enum class kind { integer, real, boolean, text, group, choice };

// The numbers a value may take; `open` bounds are excluded.
struct range {
  double low, high;
  bool open_low, open_high;
};

class argument {
 public:
  static argument integer(std::string name, long long value, range valid);
  static argument real(std::string name, double value, range valid);
  static argument boolean(std::string name, bool value);
  static argument text(std::string name, std::string value);
  static argument group(std::string name, std::vector<argument> members);
  static argument choice(std::string name, std::vector<argument> alternatives,
                         std::size_t standard = 0);

  const std::string& name() const { return name_; }
  bool is_default() const { return default_; }

  // The argument below this one at a path such as "method/sample/adapt/delta"; choices on the
  // way must be made as the path says.
  const argument& at(const std::string& path) const;
  argument& at(const std::string& path);

  long long as_integer() const;
  double as_real() const;
  bool as_boolean() const { return text_ == "true"; }
  const std::string& as_text() const { return text_; }
  const std::string& chosen() const { return members_[chosen_].name_; }
  bool chose(const std::string& alternative) const { return chosen() == alternative; }

  void set(const std::string& value);
  // Replaces a value without marking it as the user's own.
  void set_default(const std::string& value) { text_ = value; }

  // Reads the whole command line, without the program's name.
  void parse(std::deque<std::string> words);
  void print(std::ostream& out, const std::string& prefix, int depth = 0) const;

 private:
  argument(kind k, std::string name) : kind_(k), name_(std::move(name)) {}
  argument* find(const std::string& name);
  void consume(std::deque<std::string>& words);
  [[noreturn]] void reject(const std::string& value) const;

  kind kind_;
  std::string name_;
  std::string text_;
  range valid_{};
  bool default_ = true;
  std::vector<argument> members_;
  std::size_t chosen_ = 0;
};

// Every argument of the executable, with CmdStan's names and defaults.
argument command_line();

}  // namespace cli
#endif
