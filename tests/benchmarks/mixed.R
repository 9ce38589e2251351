# One mixed model by bam (discrete = TRUE) or lme4: Rscript mixed.R METHOD TABLE FILE.csv
# It prints a name and the scale of each random effect.
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
  terms <- sapply(fit$smooth, function(s) if ("z" %in% s$term) "z" else s$term)
  scales <- sqrt(fit$sig2 * sapply(fit$smooth, function(s) s$S.scale) / fit$sp[seq_along(terms)])
} else {
  suppressMessages(library(lme4))
  fit <- switch(name,
    flights = glmer(y ~ x1 + x2 + x3 + (1 | carrier) + (1 | dest) + (1 | hour) + (1 | origin), d,
                    binomial(), nAGQ = 0),
    slopes = lmer(y ~ x1 + x2 + (1 + z | g), d),
    groups = glmer(y ~ x1 + x2 + (1 | g), d, binomial(), nAGQ = 1))
  found <- as.data.frame(VarCorr(fit))
  found <- found[found$grp != "Residual" & is.na(found$var2), ]
  terms <- ifelse(found$var1 == "(Intercept)", found$grp, found$var1)
  scales <- found$sdcor
}
cat(paste(terms, scales), sep = "\n")
