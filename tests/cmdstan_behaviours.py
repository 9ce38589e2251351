"""What the engine relies on in a CmdStan executable, each with where it stands in CmdStan.

The sources are those of CmdStan 2.36 to 2.38, ``src/cmdstan/``, and of Stan's services under
``stan/services/``; a function's name is given because lines move from version to version. Every
behaviour is asked of a genuine executable and of the tests' own runtime by the same words, in
``test_genuine_cmdstan.py``, which also makes the files that are named here in braces.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BEHAVIOURS", "N_PARAMS", "Behaviour"]

#: Unconstrained parameters of the program that is asked.
N_PARAMS = 10

_GRADIENT = r"lp__,g_k,g_m,g_delta\.1,.*,g_sigma_obs,g_beta\.1,.*"
_PARAMETERS = r"k,m,delta\.1,delta\.2,delta\.3,sigma_obs,beta\.1,.*,beta\.4,trend\.1,.*"
_SAMPLER = r"lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,"


@dataclass(frozen=True)
class Behaviour:
    """One thing that an executable does.

    Attributes
    ----------
    what : str
    source : str
        File and function in CmdStan or Stan.
    words : str
        The command line, without data and output; files in braces.
    code : int
        How the process ends.
    said : str
        Pattern of what it prints, to standard error if it fails.
    head : str
        Pattern in the comments before the table.
    columns : str
        Pattern of the whole line of names; empty if there must be none.
    rows : int or None
        Rows of the table; None if there is none or it does not matter.
    output : str
        The file that is written where ``o.csv`` was asked for.
    data : str
        Of the files in braces, the one with the data.
    """

    what: str
    source: str
    words: str
    code: int = 0
    said: str = ""
    head: str = ""
    columns: str | None = None
    rows: int | None = None
    asked: str = "o.csv"
    output: str = "o.csv"
    data: str = "data"

    def __str__(self) -> str:
        return self.what.replace(" ", "_")


_HELPER, _COMMAND = "command_helper.hpp", "command.hpp"

BEHAVIOURS = (
    # Several points and one
    Behaviour(
        "one point is a vector",
        f"{_HELPER} get_uparams_r: one row unless params_r has two dimensions",
        "log_prob unconstrained_params={one}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "a matrix with one row is one point",
        f"{_HELPER} get_uparams_r",
        "log_prob unconstrained_params={one_row}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "a matrix gives a row of output for each of its rows",
        f"{_HELPER} get_uparams_r, services_log_prob_grad",
        "log_prob unconstrained_params={points}",
        columns=_GRADIENT,
        rows=5,
    ),
    Behaviour(
        "zeros and ones without decimal points are numbers too",
        "stan/io/json/json_data.hpp vals_r: integers are promoted",
        "log_prob unconstrained_params={integers}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "the Jacobian is added unless it is refused",
        "arguments/arg_log_prob.hpp: arg_jacobian is true by default",
        "log_prob jacobian=0 unconstrained_params={one}",
        head="jacobian = (false|0)",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "the first point outside the support ends the run after the rows before it",
        f"{_COMMAND} log_prob: services_log_prob_grad in a try block; NOT_OK",
        "log_prob unconstrained_params={outside}",
        code=1,
        said="Error during log_prob calculation|^$",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "a point that is not a number ends the run",
        f"{_COMMAND} log_prob; stan/io/json: NaN is a number",
        "log_prob unconstrained_params={not_a_number}",
        code=1,
        columns=_GRADIENT,
        rows=0,
    ),
    Behaviour(
        "points of another length are refused",
        f"{_HELPER} get_uparams_r",
        "log_prob unconstrained_params={short}",
        code=1,
        said=rf"Model has {N_PARAMS} parameters but 2 were found",
        columns="",
    ),
    Behaviour(
        "points without a name are refused",
        f"{_HELPER} get_uparams_r: vals_r is empty",
        "log_prob unconstrained_params={nameless}",
        code=1,
        said="no variable 'params_r'",
        columns="",
    ),
    Behaviour(
        "constrained values are one point",
        f"{_HELPER} unconstrain_params_var_context",
        "log_prob constrained_params={init}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "constrained values outside their bounds are refused",
        f"{_HELPER} unconstrain_params_var_context",
        "log_prob constrained_params={bad_init}",
        code=1,
        said=r"Lower bounded variable[\s\S]*cannot unconstrain",
        columns="",
    ),
    Behaviour(
        "draws of a table are points, a row each",
        f"{_HELPER} parse_stan_csv, unconstrain_params_csv",
        "log_prob constrained_params={draws}",
        columns=_GRADIENT,
        rows=5,
    ),
    Behaviour(
        "points are needed",
        f"{_COMMAND} log_prob",
        "log_prob",
        code=1,
        said="No input parameter files provided",
        columns="",
    ),
    # The table's head and digits
    Behaviour(
        "a table begins with the version, the program and the arguments",
        "write_stan.hpp, write_model.hpp, arguments/argument_parser.hpp print",
        "log_prob unconstrained_params={one}",
        head=r"stan_version_major = 2\n# stan_version_minor = \d+\n# stan_version_patch = \d+\n"
        r"# model = \w+_model\n# start_datetime = .*UTC\n# method = log_prob\n"
        r"#   log_prob\n#     unconstrained_params = .*\n#     constrained_params =  \(Default\)\n"
        r"#     jacobian = (true|1) \(Default\)\n# id = 1 \(Default\)\n# data\n#   file = ",
        columns=_GRADIENT,
    ),
    Behaviour(
        "an output without an extension is given one",
        "file.hpp make_filenames",
        "log_prob unconstrained_params={one}",
        columns=_GRADIENT,
        asked="plain",
        output="plain.csv",
    ),
    # Draws given
    Behaviour(
        "generated quantities of a program that has none are refused",
        "stan/services/sample/standalone_gqs.hpp standalone_generate",
        "generate_quantities fitted_params={draws}",
        code=1,
        said="doesn't generate any quantities of interest",
        columns="",
    ),
    Behaviour(
        "draws are needed",
        f"{_COMMAND} generate_quantities",
        "generate_quantities",
        code=1,
        said="Missing fitted_params argument",
        columns="",
    ),
    Behaviour(
        "draws whose columns are in another order are refused",
        f"{_HELPER} parse_stan_csv: names are compared one by one",
        "generate_quantities fitted_params={swapped}",
        code=1,
        said="Mismatch between model and fitted_parameters csv file",
        columns="",
    ),
    Behaviour(
        "draws whose parameters do not follow the columns of the method are refused",
        f"{_HELPER} parse_stan_csv: col_offset counts names that end in __",
        "generate_quantities fitted_params={apart}",
        code=1,
        said="Mismatch between model and fitted_parameters csv file",
        columns="",
    ),
    # Fits
    Behaviour(
        "a mode is one row, with transformed parameters",
        "stan/services/optimize/lbfgs.hpp",
        "optimize jacobian=1 init={init}",
        said="Optimization terminated normally",
        head=r"method = optimize\n#   optimize\n#     algorithm = lbfgs",
        columns=f"lp__,{_PARAMETERS}",
        rows=1,
    ),
    Behaviour(
        "a mode after too few steps is no failure",
        "stan/services/optimize/lbfgs.hpp: ret is 0 or more",
        "optimize iter=2 init={init}",
        said="Maximum number of iterations hit, may not be at an optima",
        columns=f"lp__,{_PARAMETERS}",
        rows=1,
    ),
    Behaviour(
        "initial values outside their bounds are refused",
        "stan/services/util/initialize.hpp",
        "optimize init={bad_init}",
        code=1,
        said=r"(User-specified i|I)nitialization .*failed[\s\S]*Initialization failed",
    ),
    Behaviour(
        "initial values of some parameters are completed at random",
        "stan/services/util/initialize.hpp: chained_var_context",
        "optimize init={part_init}",
        columns=f"lp__,{_PARAMETERS}",
        rows=1,
    ),
    Behaviour(
        "chains write sampler's columns, adaptation and times",
        "stan/services/util/mcmc_writer.hpp",
        "sample num_samples=7 num_warmup=60 init={init}",
        head=r"Adaptation terminated\n# Step size = .*\n# Diagonal elements of inverse mass",
        columns=_SAMPLER + _PARAMETERS,
        rows=7,
    ),
    Behaviour(
        "adaptation needs a warm-up",
        f"{_COMMAND} sample: num_warmup must be greater than zero",
        "sample num_warmup=0 init={init}",
        code=1,
        said="num_warmup. must be greater than zero",
    ),
    Behaviour(
        "several chains of one process have files of their own",
        f"{_HELPER} init_filestream_writers, file.hpp make_filenames",
        "sample num_chains=2 num_samples=7 num_warmup=60 init={init}",
        columns=_SAMPLER + _PARAMETERS,
        rows=7,
        output="o_2.csv",
    ),
    Behaviour(
        "parameters that are kept are drawn without a warm-up",
        "stan/services/sample/fixed_param.hpp",
        "sample algorithm=fixed_param num_warmup=0 num_samples=3 init={init}",
        columns=rf"lp__,accept_stat__,{_PARAMETERS}",
        rows=3,
    ),
    Behaviour(
        "draws of Laplace's approximation come with transformed parameters",
        "stan/services/optimize/laplace_sample.hpp",
        "laplace mode={init} draws=4",
        columns=f"log_p__,log_q__,{_PARAMETERS}",
        rows=4,
    ),
    Behaviour(
        "Laplace's approximation does not ask whether the Hessian is that of a mode",
        "stan/services/optimize/laplace_sample.hpp: .llt() unchecked",
        "laplace mode={saddle} draws=4",
        columns=f"log_p__,log_q__,{_PARAMETERS}",
        rows=4,
    ),
    Behaviour(
        "a mode is needed",
        f"{_COMMAND} laplace",
        "laplace",
        code=1,
        said="Missing mode argument",
        columns="",
    ),
    Behaviour(
        "a mode from a table must be an optimizer's",
        f"{_HELPER} get_laplace_mode_csv",
        "laplace mode={draws}",
        code=1,
        said="not output from Stan optimization",
        columns="",
    ),
    Behaviour(
        "Pathfinder's draws name their path",
        "stan/services/pathfinder/multi.hpp",
        "pathfinder num_draws=20 num_psis_draws=15 num_paths=2 init={init}",
        columns=f"lp_approx__,lp__,(path__,)?{_PARAMETERS}",
        rows=15,
    ),
    Behaviour(
        "the first row of a variational approximation is its mean",
        "stan/services/experimental/advi/meanfield.hpp",
        "variational iter=200 output_samples=9 init={init}",
        said="COMPLETED",
        head=r"Stepsize adaptation complete\.\n# eta = ",
        columns=f"lp__,log_p__,log_g__,{_PARAMETERS}",
        rows=10,
    ),
    Behaviour(
        "a variational approximation that has not converged is no failure",
        "stan/variational/advi.hpp stochastic_gradient_ascent",
        "variational iter=5 output_samples=2 adapt engaged=0 eta=0.1 init={init}",
        said="maximum number of iterations is reached! The algorithm may not have converged",
        columns=f"lp__,log_p__,log_g__,{_PARAMETERS}",
        rows=3,
    ),
    Behaviour(
        "gradients are compared with finite differences",
        "stan/services/diagnose/diagnose.hpp",
        "diagnose init={init}",
        said="param idx",
    ),
    # What is wrong
    Behaviour(
        "data that are missing are named",
        "stan/io/var_context.hpp validate_dims",
        "optimize",
        code=1,
        said="processing stage=data initialization; variable name=tau",
        data="no_tau",
    ),
    Behaviour(
        "data outside their bounds are named",
        "stan/math: check_greater_or_equal in the program's constructor",
        "optimize",
        code=1,
        said="tau is -1, but must be greater than or equal to 0",
        data="negative_tau",
    ),
    Behaviour(
        "data that are not there are named",
        "file.hpp safe_open",
        "optimize",
        code=1,
        said=r"(Can't|Cannot) open specified file, \".*nowhere.json\"",
        data="nowhere",
    ),
    Behaviour(
        "words that are not known are refused",
        "arguments/argument_parser.hpp parse_args",
        "sample num_sample=3",
        code=1,
        said=r"num_sample=3 is either mistyped or misplaced\.\nFailed to parse command arguments",
    ),
    Behaviour(
        "values that are not allowed are refused",
        "arguments/singleton_argument.hpp parse_args",
        "sample num_samples=-3",
        code=1,
        said=r"-3 is not a valid value for \"num_samples\"\n.*\nFailed to parse command arguments",
    ),
    Behaviour(
        "methods that are not known are refused",
        "arguments/list_argument.hpp parse_args",
        "method=dance",
        code=1,
        said=r'dance is not a valid value for "method"',
    ),
    Behaviour(
        "threads are refused by a program that was compiled without",
        "arguments/arg_num_threads.hpp is_valid",
        "sample num_threads=2",
        code=1,
        said=r'2 is not a valid value for "num_threads"',
    ),
)
