#include "arguments.hpp"

#include <cmath>
#include <limits>
#include <ostream>
#include <sstream>

namespace cli {

namespace {

std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::pair<std::string, std::string> split(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == std::string::npos)
    return {word, ""};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

template <typename Number>
Number number(const std::string& text, std::size_t& used) {
  if constexpr (std::is_integral_v<Number>)
    return std::stoll(text, &used);
  else
    return std::stod(text, &used);
}

// The whole of `text` as a number, or false.
template <typename Number>
bool read(const std::string& text, Number& value) {
  try {
    std::size_t used = 0;
    value = number<Number>(text, used);
    return used == text.size();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

argument argument::integer(std::string name, long long value, range valid) {
  argument made(kind::integer, std::move(name));
  made.text_ = std::to_string(value);
  made.valid_ = valid;
  return made;
}

argument argument::real(std::string name, double value, range valid) {
  argument made(kind::real, std::move(name));
  made.text_ = shown(value);
  made.valid_ = valid;
  return made;
}

argument argument::boolean(std::string name, bool value) {
  argument made(kind::boolean, std::move(name));
  made.text_ = value ? "true" : "false";
  return made;
}

argument argument::text(std::string name, std::string value) {
  argument made(kind::text, std::move(name));
  made.text_ = std::move(value);
  return made;
}

argument argument::group(std::string name, std::vector<argument> members) {
  argument made(kind::group, std::move(name));
  made.members_ = std::move(members);
  return made;
}

argument argument::choice(std::string name, std::vector<argument> alternatives,
                          std::size_t standard) {
  argument made(kind::choice, std::move(name));
  made.members_ = std::move(alternatives);
  made.chosen_ = standard;
  return made;
}

argument* argument::find(const std::string& name) {
  for (auto& member : members_)
    if (member.name_ == name)
      return &member;
  return nullptr;
}

argument& argument::at(const std::string& path) {
  const auto slash = path.find('/');
  const std::string head = path.substr(0, slash);
  argument* next = kind_ == kind::choice && !chose(head) ? nullptr : find(head);
  if (next == nullptr)
    throw std::logic_error("no argument " + head + " in " + name_);
  return slash == std::string::npos ? *next : next->at(path.substr(slash + 1));
}

const argument& argument::at(const std::string& path) const {
  return const_cast<argument*>(this)->at(path);
}

long long argument::as_integer() const { return std::stoll(text_); }

double argument::as_real() const { return std::stod(text_); }

void argument::reject(const std::string& value) const {
  std::ostringstream message;
  message << value << " is not a valid value for \"" << name_ << "\"\n  Valid values: ";
  if (kind_ == kind::boolean) {
    message << "[0, 1, true, false]";
  } else if (kind_ == kind::choice) {
    for (std::size_t i = 0; i < members_.size(); ++i)
      message << (i ? ", " : "") << members_[i].name_;
  } else {
    message << "All " << (kind_ == kind::integer ? "integers" : "real numbers");
    if (std::isfinite(valid_.low))
      message << (valid_.open_low ? " > " : " >= ") << valid_.low;
    if (std::isfinite(valid_.high))
      message << (valid_.open_high ? " < " : " <= ") << valid_.high;
  }
  throw usage_error(message.str());
}

void argument::set(const std::string& value) {
  default_ = false;
  switch (kind_) {
    case kind::text:
      text_ = value;
      return;
    case kind::boolean:
      if (value == "1" || value == "true")
        text_ = "true";
      else if (value == "0" || value == "false")
        text_ = "false";
      else
        reject(value);
      return;
    case kind::choice:
      for (chosen_ = 0; chosen_ < members_.size(); ++chosen_)
        if (chose(value))
          return;
      chosen_ = 0;
      reject(value);
    case kind::integer:
    case kind::real: {
      double parsed = 0;
      long long whole = 0;
      const bool ok = kind_ == kind::integer ? read(value, whole) : read(value, parsed);
      const double x = kind_ == kind::integer ? static_cast<double>(whole) : parsed;
      const bool above = valid_.open_low ? x > valid_.low : x >= valid_.low;
      const bool below = valid_.open_high ? x < valid_.high : x <= valid_.high;
      if (!ok || !above || !below)
        reject(value);
      text_ = value;
      return;
    }
    case kind::group:
      throw usage_error(name_ + " takes no value");
  }
}

void argument::consume(std::deque<std::string>& words) {
  while (!words.empty()) {
    const std::string word = words.front();
    const auto [key, value] = split(word);
    argument* member = find(key);
    if (member == nullptr)
      return;
    words.pop_front();
    if (member->kind_ != kind::group) {
      if (word.find('=') == std::string::npos)
        throw usage_error(word + " needs a value, " + word + "=...");
      member->set(value);
    }
    if (member->kind_ == kind::group)
      member->consume(words);
    else if (member->kind_ == kind::choice)
      member->members_[member->chosen_].consume(words);
  }
}

void argument::parse(std::deque<std::string> words) {
  // A method may be named alone: `log_prob ...` stands for `method=log_prob ...`.
  argument* method = find("method");
  for (auto& word : words)
    if (method != nullptr && method->find(word) != nullptr)
      word = "method=" + word;
  consume(words);
  if (!words.empty())
    throw usage_error(words.front() + " is either mistyped or misplaced.");
}

void argument::print(std::ostream& out, const std::string& prefix, int depth) const {
  const std::string indent = prefix + std::string(2 * depth, ' ');
  const char* mark = default_ ? " (Default)" : "";
  switch (kind_) {
    case kind::group:
      if (members_.empty())
        return;
      if (!name_.empty())
        out << indent << name_ << '\n';
      for (const auto& member : members_)
        member.print(out, prefix, name_.empty() ? depth : depth + 1);
      return;
    case kind::choice:
      out << indent << name_ << " = " << chosen() << mark << '\n';
      members_[chosen_].print(out, prefix, depth + 1);
      return;
    default:
      out << indent << name_ << " = " << text_ << mark << '\n';
  }
}

}  // namespace cli
