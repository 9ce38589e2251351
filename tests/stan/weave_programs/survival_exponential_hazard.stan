// data: {"N": 14}
data { int N; vector<lower=0>[N] t; vector<lower=0, upper=1>[N] event; vector[N] x; }
parameters { real a; real b; }
transformed parameters { vector[N] log_hazard = a + b * x; }
model {
  target += dot_product(event, log_hazard) - sum(t .* exp(log_hazard));
  a ~ normal(0, 3);
}
