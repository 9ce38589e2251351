"""What the engine relies on in a CmdStan executable, each with the source lines it comes from.

Every behaviour is asked of a genuine executable (CmdStan 2.37) and of the tests' own runtime by
the same words, in ``test_genuine_cmdstan.py``, which also makes the files that are named here in
braces.

A source is ``project@version file:line function: words``, and the words stand in that line.
CmdStan's lines are those of the named commits of stan-dev/cmdstan, below ``src/cmdstan/``. For
each file it is the newest commit whose text could be read; some are older than 2.37.
That 2.37 still behaves so the genuine executable proves, but it says "Cannot open" where
``file.hpp`` says "Can't open", and lets the sampler ``fixed_param`` do without the warm-up that
``command.hpp`` asks of every sampler. Stan's lines, and those of its library ``math``, are those
of the headers in the httpstan wheel, below ``include/stan/``, where a test looks them up; later
versions of Stan write Pathfinder's column ``path__`` besides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["BEHAVIOURS", "N_PARAMS", "Behaviour", "Source"]

#: Unconstrained parameters of the program that is asked.
N_PARAMS = 10

_GRADIENT = r"lp__,g_k,g_m,g_delta\.1,.*,g_sigma_obs,g_beta\.1,.*"
_PARAMETERS = r"k,m,delta\.1,delta\.2,delta\.3,sigma_obs,beta\.1,.*,beta\.4,trend\.1,.*"
_SAMPLER = r"lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,"


_SOURCE = re.compile(
    r"(?P<project>cmdstan(?=@[0-9a-f]{12} )|(?:stan|math)(?=@\d+\.\d+\.\d+ ))@(?P<version>\S+) "
    r"(?P<file>[\w/]+\.hpp):(?P<line>[1-9]\d*) (?P<function>\w+): (?P<words>\S.*)"
)


@dataclass(frozen=True)
class Source:
    """A line of CmdStan's, of Stan's or of its library of mathematics."""

    project: str
    version: str
    file: str
    line: int
    function: str
    words: str

    @classmethod
    def read(cls, text: str) -> Source:
        found = _SOURCE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not `project@version file:line function: words`")
        return cls(**found.groupdict() | {"line": int(found["line"])})


@dataclass(frozen=True)
class Behaviour:
    """One thing that an executable does.

    Attributes
    ----------
    what : str
    source : str
        The line that decides it, or several lines with semicolons between them.
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

    @property
    def sources(self) -> list[Source]:
        return [Source.read(text) for text in self.source.split("; ")]

    def __str__(self) -> str:
        return self.what.replace(" ", "_")


_COMMAND = "cmdstan@e173f418a217 command.hpp"
_HELPER = "cmdstan@aa6a007e6ac3 command_helper.hpp"
_FILE = "cmdstan@f289411be7d1 file.hpp"
_SINGLETON = "cmdstan@e173f418a217 arguments/singleton_argument.hpp"
_SERVICES = "stan@2.35.0 services"
_ADVI = "stan@2.35.0 variational/advi.hpp"

# Lines on which several behaviours rest
_ONE_OR_MANY = f"{_HELPER}:537 get_uparams_r: dims_u_params_r.size() == 2"
_STOPS = f"{_COMMAND}:445 command: return_codes::NOT_OK"
_NAMES = f"{_HELPER}:317 parse_stan_csv: compare"

BEHAVIOURS = (
    # Several points and one
    Behaviour(
        "one point is a vector",
        _ONE_OR_MANY,
        "log_prob unconstrained_params={one}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "a matrix with one row is one point",
        _ONE_OR_MANY,
        "log_prob unconstrained_params={one_row}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "a matrix gives a row of output for each of its rows",
        f"{_ONE_OR_MANY}; {_HELPER}:553 get_uparams_r: params_r_ind[i][j]; "
        f"{_HELPER}:587 services_log_prob_grad: params : params_set",
        "log_prob unconstrained_params={points}",
        columns=_GRADIENT,
        rows=5,
    ),
    Behaviour(
        "zeros and ones without decimal points are numbers too",
        "stan@2.35.0 io/json/json_data.hpp:116 vals_r: vec_int[ii]",
        "log_prob unconstrained_params={integers}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "the Jacobian is added unless it is refused",
        "cmdstan@1c1cf10fcdb0 arguments/arg_log_prob.hpp:27 arg_log_prob: jacobian",
        "log_prob jacobian=0 unconstrained_params={one}",
        head="jacobian = (false|0)",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "the first point outside the support ends the run after the rows before it",
        _STOPS,
        "log_prob unconstrained_params={outside}",
        code=1,
        said="Error during log_prob calculation|^$",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "a point that is not a number ends the run",
        f"{_STOPS}; "
        "stan@2.35.0 io/json/rapidjson_parser.hpp:116 rapidjson_parse: kParseNanAndInfFlag",
        "log_prob unconstrained_params={not_a_number}",
        code=1,
        columns=_GRADIENT,
        rows=0,
    ),
    Behaviour(
        "points of another length are refused",
        f"{_HELPER}:542 get_uparams_r: Incorrect number of",
        "log_prob unconstrained_params={short}",
        code=1,
        said=rf"Model has {N_PARAMS} parameters but 2 were found",
        columns="",
    ),
    Behaviour(
        "points without a name are refused",
        f"{_HELPER}:531 get_uparams_r: no variable 'params_r'",
        "log_prob unconstrained_params={nameless}",
        code=1,
        said="no variable 'params_r'",
        columns="",
    ),
    Behaviour(
        "constrained values are one point",
        f"{_HELPER}:393 unconstrain_params_var_context: transform_inits",
        "log_prob constrained_params={init}",
        columns=_GRADIENT,
        rows=1,
    ),
    Behaviour(
        "constrained values outside their bounds are refused",
        f"{_HELPER}:397 unconstrain_params_var_context: cannot unconstrain",
        "log_prob constrained_params={bad_init}",
        code=1,
        said=r"Lower bounded variable[\s\S]*cannot unconstrain",
        columns="",
    ),
    Behaviour(
        "draws of a table are points, a row each",
        f"{_NAMES}; {_HELPER}:371 unconstrain_params_csv: emplace_back",
        "log_prob constrained_params={draws}",
        columns=_GRADIENT,
        rows=5,
    ),
    Behaviour(
        "points are needed",
        f"{_COMMAND}:412 command: No input parameter files provided",
        "log_prob",
        code=1,
        said="No input parameter files provided",
        columns="",
    ),
    # The table's head and digits
    Behaviour(
        "a table begins with the version, the program and the arguments",
        "cmdstan@eceecfba372d write_config.hpp:22 write_config: write_stan",
        "log_prob unconstrained_params={one}",
        head=r"stan_version_major = 2\n# stan_version_minor = \d+\n# stan_version_patch = \d+\n"
        r"# model = \w+_model\n# start_datetime = .*UTC\n# method = log_prob\n"
        r"#   log_prob\n#     unconstrained_params = .*\n#     constrained_params =  \(Default\)\n"
        r"#     jacobian = (true|1) \(Default\)\n# id = 1 \(Default\)\n# data\n#   file = ",
        columns=_GRADIENT,
    ),
    Behaviour(
        "an output without an extension is given one",
        f"{_FILE}:196 make_filenames: base_sfx.second.empty()",
        "log_prob unconstrained_params={one}",
        columns=_GRADIENT,
        asked="plain",
        output="plain.csv",
    ),
    # Draws given
    Behaviour(
        "generated quantities of a program that has none are refused",
        f"{_SERVICES}/sample/standalone_gqs.hpp:50 standalone_generate: doesn't generate",
        "generate_quantities fitted_params={draws}",
        code=1,
        said="doesn't generate any quantities of interest",
        columns="",
    ),
    Behaviour(
        "draws are needed",
        f"{_COMMAND}:366 command: Missing fitted_params argument",
        "generate_quantities",
        code=1,
        said="Missing fitted_params argument",
        columns="",
    ),
    Behaviour(
        "draws whose columns are in another order are refused",
        _NAMES,
        "generate_quantities fitted_params={swapped}",
        code=1,
        said="Mismatch between model and fitted_parameters csv file",
        columns="",
    ),
    Behaviour(
        "draws whose parameters do not follow the columns of the method are refused",
        f"{_HELPER}:303 parse_stan_csv: ends_with; {_NAMES}",
        "generate_quantities fitted_params={apart}",
        code=1,
        said="Mismatch between model and fitted_parameters csv file",
        columns="",
    ),
    # Fits
    Behaviour(
        "a mode is one row, with transformed parameters",
        f"{_SERVICES}/optimize/lbfgs.hpp:173 lbfgs: !save_iterations",
        "optimize jacobian=1 init={init}",
        said="Optimization terminated normally",
        head=r"method = optimize\n#   optimize\n#     algorithm = lbfgs",
        columns=f"lp__,{_PARAMETERS}",
        rows=1,
    ),
    Behaviour(
        "a mode after too few steps is no failure",
        f"{_SERVICES}/optimize/lbfgs.hpp:196 lbfgs: ret >= 0; "
        "stan@2.35.0 optimization/bfgs.hpp:129 get_code_string: Maximum number of iterations",
        "optimize iter=2 init={init}",
        said="Maximum number of iterations hit, may not be at an optima",
        columns=f"lp__,{_PARAMETERS}",
        rows=1,
    ),
    Behaviour(
        "initial values outside their bounds are refused",
        f"{_SERVICES}/util/initialize.hpp:226 initialize: Initialization failed",
        "optimize init={bad_init}",
        code=1,
        said=r"(User-specified i|I)nitialization .*failed[\s\S]*Initialization failed",
    ),
    Behaviour(
        "initial values of some parameters are completed at random",
        f"{_SERVICES}/util/initialize.hpp:100 initialize: chained_var_context",
        "optimize init={part_init}",
        columns=f"lp__,{_PARAMETERS}",
        rows=1,
    ),
    Behaviour(
        "chains write sampler's columns, adaptation and times",
        f"{_SERVICES}/util/mcmc_writer.hpp:71 write_sample_names: get_sampler_param_names; "
        f"{_SERVICES}/util/mcmc_writer.hpp:145 write_adapt_finish: Adaptation terminated; "
        "stan@2.35.0 mcmc/hmc/base_hmc.hpp:48 write_sampler_stepsize: Step size",
        "sample num_samples=7 num_warmup=60 init={init}",
        head=r"Adaptation terminated\n# Step size = .*\n# Diagonal elements of inverse mass",
        columns=_SAMPLER + _PARAMETERS,
        rows=7,
    ),
    Behaviour(
        "adaptation needs a warm-up",
        f"{_COMMAND}:554 command: num_warmup == 0",
        "sample num_warmup=0 init={init}",
        code=1,
        said="num_warmup. must be greater than zero",
    ),
    Behaviour(
        "several chains of one process have files of their own",
        f"{_HELPER}:701 init_filestream_writers: make_filenames; "
        f"{_FILE}:209 make_filenames: name_iterator(i)",
        "sample num_chains=2 num_samples=7 num_warmup=60 init={init}",
        columns=_SAMPLER + _PARAMETERS,
        rows=7,
        output="o_2.csv",
    ),
    Behaviour(
        "parameters that are kept are drawn without a warm-up",
        f"{_SERVICES}/sample/fixed_param.hpp:78 fixed_param: generate_transitions",
        "sample algorithm=fixed_param num_warmup=0 num_samples=3 init={init}",
        columns=rf"lp__,accept_stat__,{_PARAMETERS}",
        rows=3,
    ),
    Behaviour(
        "draws of Laplace's approximation come with transformed parameters",
        f"{_SERVICES}/optimize/laplace_sample.hpp:52 laplace_sample: include_tp",
        "laplace mode={init} draws=4",
        columns=f"log_p__,log_q__,{_PARAMETERS}",
        rows=4,
    ),
    Behaviour(
        "Laplace's approximation does not ask whether the Hessian is that of a mode",
        f"{_SERVICES}/optimize/laplace_sample.hpp:89 laplace_sample: .llt()",
        "laplace mode={saddle} draws=4",
        columns=f"log_p__,log_q__,{_PARAMETERS}",
        rows=4,
    ),
    Behaviour(
        "a mode is needed",
        f"{_COMMAND}:384 command: Missing mode argument",
        "laplace",
        code=1,
        said="Missing mode argument",
        columns="",
    ),
    Behaviour(
        "a mode from a table must be an optimizer's",
        f"{_HELPER}:441 get_laplace_mode_csv: not output from Stan optimization",
        "laplace mode={draws}",
        code=1,
        said="not output from Stan optimization",
        columns="",
    ),
    Behaviour(
        "Pathfinder's draws name their path",
        f"{_SERVICES}/pathfinder/multi.hpp:113 pathfinder_lbfgs_multi: parameter_writer",
        "pathfinder num_draws=20 num_psis_draws=15 num_paths=2 init={init}",
        columns=f"lp_approx__,lp__,(path__,)?{_PARAMETERS}",
        rows=15,
    ),
    Behaviour(
        "the first row of a variational approximation is its mean",
        f"{_ADVI}:477 run: variational.mean()",
        "variational iter=200 output_samples=9 init={init}",
        said="COMPLETED",
        head=r"Stepsize adaptation complete\.\n# eta = ",
        columns=f"lp__,log_p__,log_g__,{_PARAMETERS}",
        rows=10,
    ),
    Behaviour(
        "a variational approximation that has not converged is no failure",
        f"{_ADVI}:432 stochastic_gradient_ascent: The maximum number",
        "variational iter=5 output_samples=2 adapt engaged=0 eta=0.1 init={init}",
        said="maximum number of iterations is reached! The algorithm may not have converged",
        columns=f"lp__,log_p__,log_g__,{_PARAMETERS}",
        rows=3,
    ),
    Behaviour(
        "gradients are compared with finite differences",
        "stan@2.35.0 model/test_gradients.hpp:77 test_gradients: param idx",
        "diagnose init={init}",
        said="param idx",
    ),
    # What is wrong
    Behaviour(
        "data that are missing are named",
        "stan@2.35.0 io/json/json_data.hpp:304 validate_dims: processing stage=",
        "optimize",
        code=1,
        said="processing stage=data initialization; variable name=tau",
        data="no_tau",
    ),
    Behaviour(
        "data outside their bounds are named",
        "math@4.9.0 prim/err/check_greater_or_equal.hpp:44 check_greater_or_equal: greater than or",
        "optimize",
        code=1,
        said="tau is -1, but must be greater than or equal to 0",
        data="negative_tau",
    ),
    Behaviour(
        "data that are not there are named",
        f"{_FILE}:223 safe_open: failbit",
        "optimize",
        code=1,
        said=r"(Can't|Cannot) open specified file, \".*nowhere.json\"",
        data="nowhere",
    ),
    Behaviour(
        "words that are not known are refused",
        "cmdstan@23f0d6040d72 arguments/argument_parser.hpp:104 parse_args: mistyped or misplaced; "
        f"{_COMMAND}:112 command: Failed to parse command arguments",
        "sample num_sample=3",
        code=1,
        said=r"num_sample=3 is either mistyped or misplaced\.\nFailed to parse command arguments",
    ),
    Behaviour(
        "values that are not allowed are refused",
        f"{_SINGLETON}:120 parse_args: is not a valid value",
        "sample num_samples=-3",
        code=1,
        said=r"-3 is not a valid value for \"num_samples\"\n.*\nFailed to parse command arguments",
    ),
    Behaviour(
        "methods that are not known are refused",
        "cmdstan@eceecfba372d arguments/list_argument.hpp:88 parse_args: is not a valid value",
        "method=dance",
        code=1,
        said=r'dance is not a valid value for "method"',
    ),
    Behaviour(
        "threads are refused by a program that was compiled without",
        f"{_SINGLETON}:120 parse_args: is not a valid value; "
        "cmdstan@d680c0df3521 arguments/arg_num_threads.hpp:31 is_valid: value == 1",
        "sample num_threads=2",
        code=1,
        said=r'2 is not a valid value for "num_threads"',
    ),
)
