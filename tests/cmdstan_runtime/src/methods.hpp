// What every method is given, and the methods: one function each, returning Stan's error code.
#ifndef STANCORESET_METHODS_HPP
#define STANCORESET_METHODS_HPP

#include <optional>
#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/logger.hpp>
#include <stan/model/model_base.hpp>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "files.hpp"

struct job {
  const cli::argument& arguments;  // the whole command line
  const cli::argument& method;     // the chosen method's part of it
  stan::model::model_base& model;
  stan::callbacks::logger& logger;
  stan::callbacks::interrupt interrupt;
  unsigned seed;
  unsigned id;
  double init_radius;
  int refresh;
  int digits;
  std::string output;

  // Opens a CSV file that starts with the configuration as comments.
  files::csv_writer csv(const std::string& path, unsigned chain_id) const;
  files::csv_writer csv() const { return csv(output, id); }
  files::json_writer json(const std::string& path) const;
  // `init=` as the radius of random initial values, where it reads as a number and not a file.
  static std::optional<double> radius(const std::string& init);
  std::vector<files::context> inits(std::size_t chains) const;
};

int sample(job&);
int optimize(job&);
int laplace(job&);
int pathfinder(job&);
int variational(job&);
int generate_quantities(job&);
int log_prob(job&);
int diagnose(job&);

#endif
