// Input files (JSON, R dump, Stan CSV), the names of output files, and the writers on them.
#ifndef STANCORESET_FILES_HPP
#define STANCORESET_FILES_HPP

#include <fstream>
#include <memory>
#include <stan/callbacks/json_writer.hpp>
#include <stan/callbacks/unique_stream_writer.hpp>
#include <stan/io/var_context.hpp>
#include <stan/model/model_base.hpp>
#include <string>
#include <vector>

namespace files {

using context = std::shared_ptr<stan::io::var_context>;
using csv_writer = stan::callbacks::unique_stream_writer<std::ofstream>;
using json_writer = stan::callbacks::json_writer<std::ofstream>;

bool ends_with(const std::string& text, const std::string& suffix);

// "out.csv", "_3" -> "out_3.csv".
std::string with_suffix(const std::string& path, const std::string& suffix);
// "out.csv", "_metric", ".json" -> "out_metric.json".
std::string with_suffix(const std::string& path, const std::string& suffix,
                        const std::string& extension);

// "out" -> "out.csv"; a name that has an extension keeps it.
std::string with_default(const std::string& path, const std::string& extension);

// Named values from a .json file or else an R dump; no values for an empty path.
context read_context(const std::string& path);

// One context per chain: from path_<id>.json for each chain where the first of these exists,
// else the same file for all.
std::vector<context> read_contexts(const std::string& path, std::size_t chains, unsigned id);

// The parameters' columns of a Stan CSV file, one row per draw, in the model's order.
Eigen::MatrixXd read_draws(const std::string& path, const stan::model::model_base& model);

// Whether a Stan CSV file's head says that an optimizer has written it.
bool is_optimization(const std::string& path);

// The unconstrained values of the parameters that a file of named values holds.
Eigen::VectorXd unconstrain(const std::string& path, stan::model::model_base& model);

// An open output stream that writes `digits` significant digits (-1: the stream's own 6).
std::unique_ptr<std::ofstream> open_output(const std::string& path, int digits);

}  // namespace files
#endif
