// refuse: \d .
data { int N; vector[N] x; array[N] int<lower=0, upper=1> event; }
parameters { real b; }
model {
  vector[N] eta = b * x;
  for (n in 1:N) if (event[n] == 1) target += eta[n] - log_sum_exp(eta[n:N]);
}
