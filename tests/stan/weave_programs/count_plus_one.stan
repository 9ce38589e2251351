// Jeffreys' prior and the normal's constant in one: N + 1 is one for each row, and one more.
data { int<lower=1> N; vector[N] y; }
parameters { real mu; real<lower=0> s; }
model {
  target += -(N + 1) * log(s) - 0.5 * dot_self(y - mu) / s ^ 2;
  target += -0.5 * (N - 1.5) * log(2 * pi() * s) / (1 + s);
}
