// refuse: 2 both `N1` and `N2` can count .*one table with a column.*
data { int N1; int N2; int N3; vector[N1] y1; vector[N2] y2; vector[N3] y3; }
parameters { real mu; real<lower=0> s; }
model { y1 ~ normal(mu, s); y2 ~ normal(mu, 2 * s); y3 ~ normal(mu, 3 * s); }
