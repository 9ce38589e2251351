#include "files.hpp"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <stan/io/dump.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/stan_csv_reader.hpp>
#include <stdexcept>

namespace files {

namespace {

std::ifstream open_input(const std::string& path) {
  std::ifstream in(path);
  if (!in.good())
    throw std::invalid_argument("Can't open specified file, \"" + path + "\"");
  return in;
}

// Where the extension starts: the last dot of the file's name, or the end.
std::size_t extension_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  const auto dot = path.find_last_of('.');
  const bool none = dot == std::string::npos || (slash != std::string::npos && dot < slash);
  return none ? path.size() : dot;
}

}  // namespace

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size()
         && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string with_suffix(const std::string& path, const std::string& suffix,
                        const std::string& extension) {
  return path.substr(0, extension_of(path)) + suffix + extension;
}

std::string with_suffix(const std::string& path, const std::string& suffix) {
  return with_suffix(path, suffix, path.substr(extension_of(path)));
}

std::string with_default(const std::string& path, const std::string& extension) {
  return extension_of(path) == path.size() ? path + extension : path;
}

context read_context(const std::string& path) {
  if (path.empty())
    return std::make_shared<stan::io::empty_var_context>();
  std::ifstream in = open_input(path);
  if (ends_with(path, ".json"))
    return std::make_shared<stan::json::json_data>(in);
  return std::make_shared<stan::io::dump>(in);
}

std::vector<context> read_contexts(const std::string& path, std::size_t chains, unsigned id) {
  if (chains == 1 || !std::ifstream(with_suffix(path, "_" + std::to_string(id))).good())
    return std::vector<context>(chains, read_context(path));
  std::vector<context> all;
  for (std::size_t i = 0; i < chains; ++i)
    all.push_back(read_context(with_suffix(path, "_" + std::to_string(id + i))));
  return all;
}

Eigen::MatrixXd read_draws(const std::string& path, const stan::model::model_base& model) {
  std::ifstream in = open_input(path);
  std::stringstream warnings;
  const stan::io::stan_csv csv = stan::io::stan_csv_reader::parse(in, &warnings);

  std::vector<std::string> names;
  model.constrained_param_names(names, false, false);
  for (auto& name : names)
    stan::io::prettify_stan_csv_name(name);
  if (names.empty())
    return Eigen::MatrixXd(csv.samples.rows(), 0);

  // The parameters follow the method's own columns, and nothing else may stand between.
  const auto first = std::find_if_not(csv.header.begin(), csv.header.end(),
                                      [](const auto& name) { return ends_with(name, "__"); });
  const bool fits = first != csv.header.end()
                    && csv.header.end() - first >= static_cast<std::ptrdiff_t>(names.size())
                    && std::equal(names.begin(), names.end(), first);
  if (!fits)
    throw std::invalid_argument("Mismatch between model and fitted_parameters csv file \"" + path
                                + "\"");
  if (csv.samples.rows() == 0)
    throw std::invalid_argument("No draws found in csv file \"" + path + "\"");
  return csv.samples.middleCols(first - csv.header.begin(), names.size());
}

bool is_optimization(const std::string& path) {
  std::ifstream in = open_input(path);
  for (std::string line; in.peek() == '#' && std::getline(in, line);)
    if (line.find("method = optimize") != std::string::npos)
      return true;
  return false;
}

Eigen::VectorXd unconstrain(const std::string& path, stan::model::model_base& model) {
  Eigen::VectorXd theta(model.num_params_r());
  try {
    model.transform_inits(*read_context(path), theta, nullptr);
  } catch (const std::exception& error) {
    throw std::invalid_argument(std::string(error.what())
                                + "\nBad or missing parameter values, cannot unconstrain.");
  }
  return theta;
}

std::unique_ptr<std::ofstream> open_output(const std::string& path, int digits) {
  auto out = std::make_unique<std::ofstream>(path);
  if (!out->good())
    throw std::invalid_argument("Cannot write to output file, \"" + path + "\"");
  if (digits > -1)
    out->precision(digits);
  return out;
}

}  // namespace files
