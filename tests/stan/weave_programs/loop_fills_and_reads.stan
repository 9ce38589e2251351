// data: {"N": 9, "J": 3, "y": "rng.integers(0, 2, 9)"}
data { int N; int J; array[N] int<lower=0, upper=1> y; array[N] int<lower=1, upper=J> g; vector[N] x; }
parameters { real mu; real<lower=0> s; vector[J] z; }
model {
  vector[N] p;
  for (i in 1:N) {
    p[i] = mu + z[g[i]] * s;
    p[i] += x[i] * p[i];
    p[i] = inv_logit(p[i]);
  }
  y ~ binomial(1, p);
  z ~ normal(0, 1);
}
