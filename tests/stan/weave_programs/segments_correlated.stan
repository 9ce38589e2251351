// data: {"N": 11, "K": 3, "s": [4, 2, 5]}
// Terms of whole segments, which need positions that the loop carries along.
data { int<lower=0> N; int<lower=0> K; vector[N] y; vector[N] t; array[K] int s; }
parameters { real mu; real<lower=0> sigma; real<lower=0> rho; }
model {
  int pos;
  pos = 1;
  for (k in 1:K) {
    matrix[s[k], s[k]] S = gp_exp_quad_cov(to_array_1d(segment(t, pos, s[k])), sigma, rho);
    segment(y, pos, s[k]) ~ multi_normal(rep_vector(mu, s[k]), add_diag(S, 1.0));
    pos = pos + s[k];
  }
  mu ~ normal(0, 5);
}
