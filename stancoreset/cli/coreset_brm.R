# brms models by stancoreset: NUTS on a few weighted rows, certified on all of them.
#
#   eval(parse(text = system2("stancoreset", "r-helper", TRUE)))
#   fit <- coreset_brm(y ~ x + (1 | g), data, family = bernoulli(), coreset = list(size = 200))
#   attr(fit, "certificate")$verdict
#
# The result is a brmsfit: summary, ranef, VarCorr, posterior_predict, conditional_effects, loo, ...
# `...` describes the model as in brms::brm (family, prior, stanvars, ...). `coreset` holds options
# of `stancoreset fit` (see its --help), flags as TRUE: list(size = 200, chains = 4, no_plots = TRUE).
# `dir` is a new folder for the run and its report. A rejected fit is an error.
coreset_brm <- function(formula, data, ..., coreset = list(), dir = tempfile("coreset-"),
                        command = Sys.getenv("STANCORESET", "stancoreset")) {
  sampling <- c("chains", "iter", "warmup", "thin", "cores", "control", "seed", "init", "threads")
  wrong <- intersect(names(list(...)), sampling)
  if (length(wrong)) stop("NUTS is set by coreset = list(...), not by: ", toString(wrong))
  code <- brms::make_stancode(formula, data, ..., threads = NULL)
  # Arrays as Stan has written them since 2.26: `int Y[N];` becomes `array[N] int Y;`.
  type <- "((?:int|real|[a-z_]*(?:vector|matrix|simplex|ordered|cholesky_factor)[a-z_]*)"
  old <- paste0("(?m)^(\\s*)", type, "(?:<[^;]*?>)?(?:\\[[^];]*\\])?) +(\\w+)\\[([^];=]*)\\] *(;|=)")
  code <- gsub(old, "\\1array[\\4] \\2 \\3 \\5", code, perl = TRUE)
  code <- gsub(paste0("\\b", type, ")\\[(,*)\\]"), "array[\\2] \\1", code, perl = TRUE)
  dir.create(inputs <- tempfile("brms-"))
  files <- file.path(inputs, c("model.stan", "data.json"))
  writeLines(code, files[1])
  jsonlite::write_json(unclass(brms::make_standata(formula, data, ...)), files[2],
                       auto_unbox = TRUE, digits = NA)
  value <- function(x) if (!isTRUE(x)) format(x, digits = 15, scientific = FALSE, trim = TRUE)
  flags <- unlist(Map(c, paste0("--", gsub("_", "-", names(coreset))), lapply(coreset, value)))
  exit <- system2(command, c("fit", shQuote(c(files, flags, "--out", dir)), "--csv"))
  if (!exit %in% c(0, 3)) stop("stancoreset fit ended with exit code ", exit, ": see above")
  certificate <- jsonlite::read_json(file.path(dir, "report.json"), TRUE)$certificate
  if (exit == 3) stop("the fit was rejected: ", paste(certificate$reasons, collapse = "; "))
  fit <- brms::brm(formula, data, ..., empty = TRUE)
  chains <- list.files(dir, "^chain_[0-9]+\\.csv$", full.names = TRUE)
  fit$fit <- rstan::read_stan_csv(chains[order(nchar(chains), chains)])
  structure(brms::rename_pars(fit), certificate = certificate, dir = dir)
}
