# One mixed model by bam (discrete = TRUE) or lme4: Rscript mixed.R METHOD TABLE FILE.csv
arguments <- commandArgs(TRUE)
method <- arguments[1]
name <- arguments[2]
d <- read.csv(arguments[3])
factors <- intersect(c("carrier", "dest", "hour", "origin", "g", "h"), names(d))
for (v in factors) d[[v]] <- factor(d[[v]])
if (method == "bam") {
  suppressMessages(library(mgcv))
  random <- paste0("s(", factors, ", bs = 're')", collapse = " + ")
  if (name == "slopes") random <- paste(random, "+ s(g, z, bs = 're')")
  fixed <- paste(grep("^x", names(d), value = TRUE), collapse = " + ")
  family <- switch(name, flights = binomial(), counts = nb(), ordinal = ocat(R = 5),
                   slopes = gaussian(), groups = binomial())
  fit <- bam(as.formula(paste("y ~", fixed, "+", random)), family, d, discrete = TRUE)
  cat(1 / sqrt(fit$sp) * sqrt(fit$sig2), "\n")
} else {
  suppressMessages(library(lme4))
  fit <- switch(name,
    flights = glmer(y ~ x1 + x2 + x3 + (1 | carrier) + (1 | dest) + (1 | hour) + (1 | origin), d,
                    binomial(), nAGQ = 0),
    slopes = lmer(y ~ x1 + x2 + (1 + z | g), d),
    groups = glmer(y ~ x1 + x2 + (1 | g), d, binomial(), nAGQ = 1))
  cat(as.data.frame(VarCorr(fit))$sdcor, "\n")
}
