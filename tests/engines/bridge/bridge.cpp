// BridgeStan's C interface for one compiled Stan program, which the package bridgestan loads.
//
// BridgeStan's own sources are downloaded from GitHub; the tests do without, and need densities,
// gradients and variables alone. What is left out says so. PROGRAM is stanc's translation.
#include PROGRAM

#include <cstring>
#include <memory>
#include <sstream>
#include <stan/io/json/json_data.hpp>
#include <stan/services/util/create_rng.hpp>
#include <string>
#include <vector>

namespace {

struct model {
  std::unique_ptr<stan::model::model_base> stan;
  std::string name, info, names, unconstrained_names;
};

char* copied(const std::string& text) {
  char* out = new char[text.size() + 1];
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

// What `work` throws becomes a message and a return code.
template <typename Work>
int guarded(char** error, Work&& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& thrown) {
    if (error != nullptr)
      *error = copied(thrown.what());
    return -1;
  }
}

int left_out(char** error) {
  return guarded(error, [] { throw std::logic_error("this library does not have it"); });
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names)
    out += (out.empty() ? "" : ",") + name;
  return out;
}

Eigen::VectorXd point(const model* m, const double* theta) {
  return Eigen::Map<const Eigen::VectorXd>(theta, m->stan->num_params_r());
}

template <typename T>
T log_density(const model* m, bool propto, bool jacobian, Eigen::Matrix<T, -1, 1>& theta) {
  if (propto)
    return jacobian ? m->stan->log_prob_propto_jacobian(theta, nullptr)
                    : m->stan->log_prob_propto(theta, nullptr);
  return jacobian ? m->stan->log_prob_jacobian(theta, nullptr)
                  : m->stan->log_prob(theta, nullptr);
}

}  // namespace

extern "C" {

int bs_major_version = 2, bs_minor_version = 9, bs_patch_version = 0;

void bs_free_error_msg(char* text) { delete[] text; }

int bs_set_print_callback(void*, char**) { return 0; }

model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  model* made = nullptr;
  guarded(error, [&] {
    std::istringstream stream(*data ? data : "{}");
    stan::json::json_data context(stream);
    auto fresh = std::make_unique<model>();
    fresh->stan.reset(&new_model(context, seed, nullptr));
    fresh->name = fresh->stan->model_name();
    fresh->info = "Stan program of the tests";
    made = fresh.release();
  });
  return made;
}

void bs_model_destruct(model* m) { delete m; }

const char* bs_name(const model* m) { return m->name.c_str(); }

const char* bs_model_info(const model* m) { return m->info.c_str(); }

const char* bs_param_names(model* m, bool transformed, bool generated) {
  std::vector<std::string> names;
  m->stan->constrained_param_names(names, transformed, generated);
  m->names = joined(names);
  return m->names.c_str();
}

const char* bs_param_unc_names(model* m) {
  std::vector<std::string> names;
  m->stan->unconstrained_param_names(names, false, false);
  m->unconstrained_names = joined(names);
  return m->unconstrained_names.c_str();
}

int bs_param_num(const model* m, bool transformed, bool generated) {
  std::vector<std::string> names;
  m->stan->constrained_param_names(names, transformed, generated);
  return names.size();
}

int bs_param_unc_num(const model* m) { return m->stan->num_params_r(); }

void* bs_rng_construct(unsigned int seed, char**) {
  return new stan::rng_t(stan::services::util::create_rng(seed, 0));
}

void bs_rng_destruct(stan::rng_t* rng) { delete rng; }

int bs_param_constrain(const model* m, bool transformed, bool generated, const double* theta,
                       double* out, stan::rng_t* rng, char** error) {
  return guarded(error, [&] {
    stan::rng_t own = stan::services::util::create_rng(0, 0);
    Eigen::VectorXd at = point(m, theta), found;
    m->stan->write_array(rng ? *rng : own, at, found, transformed, generated, nullptr);
    Eigen::Map<Eigen::VectorXd>(out, found.size()) = found;
  });
}

int bs_param_unconstrain(const model* m, const double* values, double* out, char** error) {
  return guarded(error, [&] {
    const Eigen::VectorXd given
        = Eigen::Map<const Eigen::VectorXd>(values, bs_param_num(m, false, false));
    Eigen::VectorXd found;
    m->stan->unconstrain_array(given, found, nullptr);
    Eigen::Map<Eigen::VectorXd>(out, found.size()) = found;
  });
}

int bs_log_density(const model* m, bool propto, bool jacobian, const double* theta, double* value,
                   char** error) {
  return guarded(error, [&] {
    // Constants are left out of variables alone.
    stan::math::nested_rev_autodiff nested;
    Eigen::Matrix<stan::math::var, -1, 1> at = point(m, theta);
    *value = log_density(m, propto, jacobian, at).val();
  });
}

int bs_log_density_gradient(const model* m, bool propto, bool jacobian, const double* theta,
                            double* value, double* gradient, char** error) {
  return guarded(error, [&] {
    stan::math::nested_rev_autodiff nested;
    Eigen::Matrix<stan::math::var, -1, 1> at = point(m, theta);
    stan::math::var found = log_density(m, propto, jacobian, at);
    *value = found.val();
    stan::math::grad(found.vi_);
    for (Eigen::Index i = 0; i < at.size(); ++i)
      gradient[i] = at[i].adj();
  });
}

int bs_param_unconstrain_json(const model*, const char*, double*, char** error) {
  return left_out(error);
}

int bs_param_initialize(const model*, const char*, void*, double, int, bool, double*,
                        char** error) {
  return left_out(error);
}

int bs_log_density_hessian(const model*, bool, bool, const double*, double*, double*, double*,
                           char** error) {
  return left_out(error);
}

int bs_log_density_hessian_vector_product(const model*, bool, bool, const double*, const double*,
                                          double*, double*, char** error) {
  return left_out(error);
}
}
