// data: {"N": 12, "J": 3, "s": [[1, 2], [3, 1], [0, 5]]}
data {
  int<lower=1> N;
  int<lower=1> J;
  vector[N] y;
  array[J, 2] int<lower=0> s;
}
parameters {
  vector[J] mu;
  real<lower=0> sigma;
}
model {
  int pos = 1;
  mu ~ std_normal();
  for (j in 1 : J) {
    int size_of_j = 0;
    for (k in 1 : 2) {
      size_of_j += s[j, k];
    }
    y[pos : (pos + size_of_j - 1)] ~ normal(mu[j], sigma);
    pos += size_of_j;
  }
}
