// data: {"I": 5, "J": 4, "K": 2, "g": [1, 2, 2, 1, 2]}
// Numbers of a person, computed before the loop over items, which priors in the same loop read too.
data { int I; int J; int K; array[I, J] int<lower=0, upper=1> y; array[I] int<lower=1, upper=K> g; matrix[I, J] z; }
parameters { vector[I] theta; vector[J] beta; vector[K] mu; real<lower=0> s; }
model {
  for (i in 1:I) {
    real own = mu[g[i]] + theta[i];
    real twice;
    twice = 2 * own;
    theta[i] ~ normal(0.1 * twice, 1);
    for (j in 1:J) {
      real eta = own - beta[j];
      eta += 0.1 * z[i, j];
      y[i, j] ~ bernoulli_logit(eta);
    }
    for (j in 1:J) z[i, j] ~ normal(twice, s);
  }
  beta ~ std_normal();
}
