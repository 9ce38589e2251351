// data: {"N": 12}
data { int N; array[N] real y; }
parameters { real mu; }
model { for (v in y) { v ~ cauchy(mu, 1); } mu ~ normal(0, 3); }
