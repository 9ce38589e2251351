// data: {"P": 12, "I": 3, "y": "rng.integers(0, 2, (P, I))"}
data { int P; int I; array[P, I] int<lower=0, upper=1> y; vector[I] d; }
parameters { real m; real<lower=0> a; }
model {
  for (p in 1:P) {
    real ll = 0;
    for (i in 1:I) ll += bernoulli_logit_lpmf(y[p, i] | a * (m - d[i]));
    target += ll;
  }
}
