// The head of a CSV file, and initial values.
#include <ctime>
#include <ostream>
#include <stan/version.hpp>

#include "methods.hpp"

namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&seconds));
  return text;
}

}  // namespace

std::optional<double> job::radius(const std::string& init) {
  try {
    std::size_t used = 0;
    const double number = std::stod(init, &used);
    if (used == init.size())
      return number;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

files::csv_writer job::csv(const std::string& path, unsigned chain_id) const {
  auto out = files::open_output(files::with_default(path, ".csv"), digits);
  *out << "# stan_version_major = " << stan::MAJOR_VERSION << '\n'
       << "# stan_version_minor = " << stan::MINOR_VERSION << '\n'
       << "# stan_version_patch = " << stan::PATCH_VERSION << '\n'
       << "# model = " << model.model_name() << '\n'
       << "# start_datetime = " << now() << '\n';
  cli::argument shown = arguments;
  shown.at("id").set_default(std::to_string(chain_id));
  shown.print(*out, "# ");
  for (const auto& line : model.model_compile_info())
    *out << "# " << line << '\n';
  return files::csv_writer(std::move(out), "# ");
}

files::json_writer job::json(const std::string& path) const {
  return files::json_writer(path.empty() ? nullptr : files::open_output(path, digits));
}

std::vector<files::context> job::inits(std::size_t chains) const {
  const std::string& init = arguments.at("init").as_text();
  return files::read_contexts(radius(init) ? "" : init, chains, id);
}
