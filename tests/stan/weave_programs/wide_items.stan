// data: {"I": 5, "J": 4, "K": 3, "y": "rng.integers(-1, 2, (I, J))", "level": "rng.integers(1, K + 1, J)"}
// Persons and items: each cell is an observation, and some are missing.
data {
  int<lower=1> I;
  int<lower=1> J;
  int<lower=1> K;
  array[I, J] int y;
  matrix[I, J] seconds;
  array[J] int<lower=1, upper=K> level;
}
parameters {
  vector[I] theta;
  vector[J] beta;
  vector[K] speed;
  real<lower=0> tau;
}
model {
  theta ~ std_normal();
  beta ~ normal(0, 3);
  for (i in 1 : I) {
    speed ~ normal(0, tau);
    for (j in 1 : J) {
      real eta = theta[i] - beta[j] + speed[level[j]] * seconds[i, j];
      if (y[i, j] >= 0) {
        y[i][j] ~ bernoulli_logit(eta);
      }
    }
  }
}
