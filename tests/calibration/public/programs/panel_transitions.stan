// From one state to the next: transition probabilities of each region.
data {
  int<lower=1> N;
  int<lower=2> K;
  int<lower=1> R;
  array[N] int<lower=1, upper=R> region;
  array[N] int<lower=1, upper=K> before;
  array[N] int<lower=1, upper=K> now;
  matrix<lower=0>[K, K] prior_count;
}
parameters {
  array[R, K] simplex[K] theta;
}
model {
  for (r in 1:R)
    for (k in 1:K)
      theta[r, k] ~ dirichlet(prior_count[k]');
  for (n in 1:N)
    now[n] ~ categorical(theta[region[n], before[n]]);
}
