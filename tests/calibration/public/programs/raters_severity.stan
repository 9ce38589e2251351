// Essays scored by raters: quality of the essay, severity of the rater, common thresholds.
data {
  int<lower=1> N;
  int<lower=1> E;
  int<lower=1> R;
  int<lower=2> K;
  array[N] int<lower=1, upper=E> essay;
  array[N] int<lower=1, upper=R> rater;
  array[N] int<lower=1, upper=K> score;
}
parameters {
  vector[E] quality;
  vector[R] severity_raw;
  real<lower=0> sd_quality;
  real<lower=0> sd_severity;
  ordered[K - 1] cut;
}
transformed parameters {
  vector[R] severity = sd_severity * severity_raw;
}
model {
  sd_quality ~ lognormal(0, 0.3);
  sd_severity ~ normal(0, 0.7);
  quality ~ normal(0, sd_quality);
  severity_raw ~ std_normal();
  cut ~ normal(0, 1.5);
  for (n in 1:N)
    score[n] ~ ordered_logistic(quality[essay[n]] - severity[rater[n]], cut);
}
