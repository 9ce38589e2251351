// data: {"N1": 9, "N2": 6}
data { int N1; int N2; vector[N1] y1; vector[N2] y2; }
parameters { real mu; real<lower=0> s; }
model { y1 ~ normal(mu, s); y2 ~ normal(mu, 2 * s); }
