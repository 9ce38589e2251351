// The whole program in one translation unit: parsing Stan's headers is most of what it costs.
#include <stan/model/model_header.hpp>

#include "arguments.cpp"
#include "command_line.cpp"
#include "evaluate.cpp"
#include "files.cpp"
#include "job.cpp"
#include "main.cpp"
#include "optimize.cpp"
#include "sample.cpp"
#include "variational.cpp"
