// refuse: 13 .*computed from data rows
// N / 2 of integers drops the remainder: not half a term for each row.
data {
  int<lower=1> N;
  vector[N] y;
}
parameters {
  real mu;
  real<lower=0> s;
}
model {
  target += -sum(square(y - mu)) / (2 * s ^ 2);
  target += -N / 2 * log(2 * pi() * s ^ 2);
}
