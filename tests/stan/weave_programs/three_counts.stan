// data: {"N1": 7, "N2": 3, "N3": 5}
data { int N1; int N2; int N3; vector[N1] y1; vector[N2] y2; vector[N3] y3; }
parameters { real mu; real<lower=0> s; }
model { y1 ~ normal(mu, s); y2 ~ normal(mu, 2 * s); y3 ~ normal(mu, 3 * s); }
