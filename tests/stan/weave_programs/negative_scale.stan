// data: {"N": 6}
data { int N; vector[N] y; }
parameters { real a; real<lower=0> s; }
model { target += -(0.5 * sum(square(y - a)) / s^2 + N * log(s)) - 2 * s; target += -sum(abs(y)) * 0.1 / s; }
