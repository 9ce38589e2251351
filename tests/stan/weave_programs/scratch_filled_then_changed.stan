// data: {"N": 12, "T": 3, "arm": "rng.integers(1, 3, (N, T))", "r": "rng.normal(size=(N, T))"}
data {
  int N; int T; array[N, T] int<lower=1, upper=2> arm; matrix[N, T] r;
  array[N] int<lower=1, upper=3> k; vector[N] y;
}
parameters { real<lower=0, upper=1> rate; real<lower=0> tau; vector[3] b; }
model {
  vector[2] value;
  array[3] real eta;
  for (i in 1:N) {
    value[1] = 0;
    value[2] = 0;
    for (t in 1:T) {
      arm[i, t] ~ categorical_logit(tau * value);
      value[arm[i, t]] += rate * (r[i, t] - value[arm[i, t]]);
    }
    for (j in 1:3) eta[j] = 0;
    if (k[i] > 1) eta[k[i]] = b[k[i]];
    y[i] ~ normal(sum(eta), 1);
  }
  b ~ normal(0, 1);
}
