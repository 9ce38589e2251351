// Counts of what shoppers of a store buy among four brands: multinomial with a softmax.
data {
  int<lower=1> N;
  int<lower=1> S;
  array[N, 4] int<lower=0> bought;
  array[N] int<lower=1, upper=S> store;
  vector[N] discount;
}
parameters {
  vector[3] base;
  vector[3] by_discount;
  vector<lower=0>[3] sd_store;
  matrix[S, 3] z;
}
model {
  base ~ normal(0, 0.7);
  by_discount ~ normal(0, 0.4);
  sd_store ~ normal(0, 0.5);
  to_vector(z) ~ std_normal();
  for (n in 1:N) {
    vector[4] u;
    u[1] = 0;
    for (k in 1:3)
      u[k + 1] = base[k] + by_discount[k] * discount[n] + sd_store[k] * z[store[n], k];
    bought[n] ~ multinomial(softmax(u));
  }
}
