// data: {"N": 7}
data { int N; vector[N] y; }
parameters { real a; real<lower=0> s; }
model { real rss = sum(square(y - a)); real prior = normal_lpdf(a | 0, 1); target += -rss / (2 * s^2) - N * log(s) + prior; }
