// The tolerances that every quasi-Newton search takes.
#ifndef STANCORESET_LINE_SEARCH_HPP
#define STANCORESET_LINE_SEARCH_HPP

#include "arguments.hpp"

struct line_search {
  double init_alpha, tol_obj, tol_rel_obj, tol_grad, tol_rel_grad, tol_param;

  explicit line_search(const cli::argument& args)
      : init_alpha(args.at("init_alpha").as_real()),
        tol_obj(args.at("tol_obj").as_real()),
        tol_rel_obj(args.at("tol_rel_obj").as_real()),
        tol_grad(args.at("tol_grad").as_real()),
        tol_rel_grad(args.at("tol_rel_grad").as_real()),
        tol_param(args.at("tol_param").as_real()) {}
};

#endif
