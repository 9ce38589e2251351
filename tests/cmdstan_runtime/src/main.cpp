// A Stan program's executable with CmdStan's command line: reads the arguments and the data,
// builds the model and runs one method. Exit code 0, or 1 with the reason on standard error.
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <stan/callbacks/stream_logger.hpp>
#include <stan/math/prim/core/init_threadpool_tbb.hpp>
#include <stan/version.hpp>

#include "methods.hpp"

// Both are in the translation unit that stanc generates.
stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed,
                                   std::ostream* messages);

extern const bool stan_threads;

namespace {

void print_info(std::ostream& out) {
  out << "stan_version_major = " << stan::MAJOR_VERSION << '\n'
      << "stan_version_minor = " << stan::MINOR_VERSION << '\n'
      << "stan_version_patch = " << stan::PATCH_VERSION << '\n'
      << "STAN_THREADS=" << (stan_threads ? "true" : "false") << '\n'
      << "STAN_MPI=false\nSTAN_OPENCL=false\nSTAN_NO_RANGE_CHECKS=false\n"
      << "STAN_CPP_OPTIMS=false\n";
}

// num_threads from the command line, else from STAN_NUM_THREADS, else 1. A program without
// threads is held to one: its autodiff stack is not thread-local, and Pathfinder's paths would
// otherwise run on all processors.
void start_threads(cli::argument& args) {
  cli::argument& wanted = args.at("num_threads");
  if (wanted.is_default() && stan_threads)
    wanted.set_default(std::to_string(stan::math::internal::get_num_threads()));
  if (!stan_threads && wanted.as_integer() != 1)
    throw cli::usage_error(wanted.as_text()
                           + " is not a valid value for \"num_threads\"\n"
                             "  Valid values: num_threads == 1");
  stan::math::init_threadpool_tbb(static_cast<int>(wanted.as_integer()));
}

// A seed from the clock, where the user gave none.
void choose_seed(cli::argument& seed) {
  if (!seed.is_default())
    return;
  const auto ticks = std::chrono::system_clock::now().time_since_epoch();
  const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(ticks).count();
  seed.set_default(std::to_string(count % 4294967296LL));
}

int run(cli::argument args) {
  const std::map<std::string, int (*)(job&)> methods{
      {"sample", sample},           {"optimize", optimize},
      {"laplace", laplace},         {"pathfinder", pathfinder},
      {"variational", variational}, {"generate_quantities", generate_quantities},
      {"log_prob", log_prob},       {"diagnose", diagnose}};
  const std::string method = args.at("method").chosen();
  start_threads(args);
  choose_seed(args.at("random/seed"));
  args.print(std::cout, "");
  std::cout << std::endl;

  const unsigned seed = static_cast<unsigned>(args.at("random/seed").as_integer());
  const auto data = files::read_context(args.at("data/file").as_text());
  const std::unique_ptr<stan::model::model_base> model(&new_model(*data, seed, &std::cout));
  stan::callbacks::stream_logger logger(std::cout, std::cout, std::cout, std::cerr, std::cerr);
  job work{args,
           args.at("method/" + method),
           *model,
           logger,
           {},
           seed,
           static_cast<unsigned>(args.at("id").as_integer()),
           job::radius(args.at("init").as_text()).value_or(2),
           static_cast<int>(args.at("output/refresh").as_integer()),
           static_cast<int>(args.at("output/sig_figs").as_integer()),
           args.at("output/file").as_text()};
  return methods.at(method)(work);
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::string(words[1]) == "info") {
    print_info(std::cout);
    return 0;
  }
  try {
    cli::argument args = cli::command_line();
    args.parse({words + 1, words + count});
    return run(std::move(args)) == 0 ? 0 : 1;
  } catch (const cli::usage_error& error) {
    std::cerr << error.what() << "\nFailed to parse command arguments, cannot run model."
              << std::endl;
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
